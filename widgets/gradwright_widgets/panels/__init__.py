"""The panels, a folder each; its TypeScript is in the folder of the same name."""
