"""Chat templates in the styles that models have, written for these tests."""

from __future__ import annotations

CHATML = """\
{%- if tools %}
<|im_start|>system
Tools:
{%- for tool in tools %}
{{ tool | tojson(indent=2) }}
{%- endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}
    {%- if loop.first and message.role != 'system' %}
        {{- '<|im_start|>system\\nBe brief.<|im_end|>\\n' }}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}
            {{- message.content ~ '<|im_end|>' }}
        {%- endgeneration %}
    {%- else %}
        {{- message.content | trim }}<|im_end|>
    {%- endif %}
    {{- '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
"""Turns between marks, a system message of its own, tools as JSON."""

HEADERS = """\
{{- bos_token }}
{%- set date = date_string if date_string is defined else 'today' %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = '' %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' + 'Date: ' + date + '\\n' }}
{{- system_message + '<|eot_id|>' }}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' + message.content + '<|eot_id|>' }}
    {%- else %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
        {%- if message['role'] == 'assistant' %}
            {%- generation %}{{ message['content'] | trim + '<|eot_id|>' }}{% endgeneration %}
        {%- else %}
            {{- message['content'] | trim + '<|eot_id|>' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
"""Headers before each turn, variables of its own, the tool under another name."""

BRACKETS = """\
{{ bos_token }}
{%- set ns = namespace(system='') %}
{%- for message in messages %}
    {%- if message.role == 'system' %}
        {%- set ns.system = message.content + '\\n\\n' %}
        {%- continue %}
    {%- endif %}
    {%- if message.role == 'user' %}
        {%- if not loop.last and messages[loop.index].role == 'user' %}
            {{- raise_exception('Roles must alternate: ' ~ message.content) }}
        {%- endif %}
        {{- '[INST] ' + ns.system + message.content + ' [/INST]' }}
        {%- set ns.system = '' %}
    {%- elif message.role == 'assistant' %}
        {%- generation %} {{ message.content.strip() }}{{ eos_token }}{% endgeneration %}
    {%- endif %}
{%- endfor %}
"""
"""Instructions in brackets, the system's before the user's first; eos behind each answer."""

STYLES = {"chatml": CHATML, "headers": HEADERS, "brackets": BRACKETS}
SPECIAL = ["<pad>", "<bos>", "<eos>", "<|im_start|>", "<|im_end|>"]
SPECIAL += ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "[INST]", "[/INST]"]
