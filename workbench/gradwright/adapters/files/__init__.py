"""Files of adapters: folders of peft both ways, GGUF files, bottlenecks as safetensors."""
