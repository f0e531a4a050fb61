#!/usr/bin/env python3
"""Stores what Python's jinja2, set up as `transformers` does, renders from templates of our own.

    python3 -m venv venv && venv/bin/pip install jinja2
    venv/bin/python tools/text_templates.py tests/unit/text/data/templates.cases.json

writes a list of [template, variables, text]; the text is null where jinja2 refuses.
`--from FILE` reads further templates from a JSON list of texts.
"""
import argparse
import json
import pathlib
from datetime import datetime

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime(2026, 3, 4, 5, 6, 7)


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def environment():
    def refuse(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = refuse
    env.globals["strftime_now"] = NOW.strftime
    return env


USER = {"role": "user", "content": " Hi 'you' & \"all\" <b>é🤖</b>\nline "}
ANSWER = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes.  "}
CALL = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"x": 1.5, "y": [1, True, None], "z": "ü"}}}]}
TOOL = {"role": "tool", "content": "{\"t\": 20}", "name": "f"}
SYSTEM = {"role": "system", "content": "Be brief."}
PARTS = {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image"}, {"type": "text", "text": "!"}]}
TOOLS = [{"type": "function", "function": {"name": "f", "description": "Does \"it\"", "parameters": {
    "type": "object", "properties": {"x": {"type": "number", "description": "a\nb"}, "y": {"type": ["array", "null"]}},
    "required": ["x"]}}}]


def contexts():
    base = {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True}
    for messages in ([USER], [SYSTEM, USER, ANSWER, USER], [USER, USER], [SYSTEM, USER, CALL, TOOL, ANSWER, USER], [PARTS], []):
        yield {**base, "messages": messages}
        yield {**base, "messages": messages, "tools": TOOLS, "add_generation_prompt": False, "enable_thinking": False}


TEMPLATES = [
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    """{{- bos_token }}
{%- if messages and messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|head|>\\nDate: " + strftime_now("%d %b %Y") + "\\n" + system_message + "\\n" }}
{%- if tools is not none and tools is defined %}
    {{- "Tools:\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start|>' + message['role'] + '<|end|>\\n\\n'+ message['content'] | trim + '<|eot|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("one call at a time") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '{"name": "' + tool_call.name + '", "parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
    {%- elif message.role == "tool" %}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
    {%- endif %}
{%- endfor %}""",
    """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% else %}{% set loop_messages = messages %}{% endif %}
{% for message in loop_messages %}
  {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
    {{ raise_exception('Roles must alternate: ' ~ message.role) }}
  {% endif %}
  {# a comment #}
  {% generation %}[{{ message.role }}] {{ message.content }}{% endgeneration %}

  {%- if not loop.last %}, {% else %}{{ eos_token }}{% endif +%}
{% endfor %}
end
""",
    """{%- set ns = namespace(last=-1, found=false, text='') %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if not ns.found and message.role == "user" and message.content is string
           and not(message.content.startswith('<r>') and message.content.endswith('</r>')) %}
        {%- set ns.found = true %}{%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}{%- set content = message.content %}{%- else %}{%- set content = '' %}{%- endif %}
    {%- if '</think>' in content %}
        {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {{- '(' + thought.strip('\\n') + ')' }}
    {%- endif %}
    {{- loop.index ~ '/' ~ loop.length ~ ':' ~ content ~ ' ' ~ (loop.index0 > ns.last) ~ loop.first }}
    {%- if message.tool_calls %}
        {%- for tool_call in message.tool_calls %}
            {%- if (loop.first and content) or (not loop.first) %}{{- '\\n' }}{%- endif %}
            {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- tool_call.name }}{{ tool_call.arguments | tojson }}{{ tool_call.arguments }}
        {%- endfor %}
    {%- endif %}
    {%- if (loop.previtem and loop.previtem.role == 'tool') or loop.nextitem is not defined %}|{% endif %}
{%- endfor %}
{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}""",
    """{%- macro kind(spec, required=false) -%}
    {%- if spec.type is string -%}{{ spec.type }}{% elif spec.type is iterable %}{{ spec.type | join(" | ") }}{% else %}any{% endif %}
    {%- if not required %}?{% endif %}
{%- endmacro -%}
{%- if tools %}
namespace {
{%- for tool in tools %}{% set f = tool.function %}
// {{ f.description }}
{% for name, spec in f.parameters.properties.items() %}
{{ name }}: {{ kind(spec, required=name in f.parameters.required) }},{% if spec.description %} // {{ spec.description | replace("\\n", " ") | upper }}{% endif %}

{% endfor %}
{%- endfor %}}
{% endif %}
{%- for message in messages if message.role != 'system' -%}
  {%- if message.content is string -%}{{ message.content | capitalize | indent(2) }}
  {%- elif message.content is sequence and message.content is not none -%}
    {%- for part in message.content -%}
      {%- if part.type == 'image' -%}<image>{%- continue -%}{%- endif -%}{{ part['text'] | title }}{%- if loop.index > 5 -%}{%- break -%}{%- endif -%}
    {%- endfor -%}
  {%- endif -%}
{%- else -%}nothing{%- endfor -%}""",
    "{{ [1, 2.0, 'a\\'b', none, true, {'k': (1,)}] }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 1 < 2 < 3 }}"
    " {{ 'abc'[1] }} {{ 'abcdef'[-3:] }} {{ [1,2,3,4][::2] }} {{ 1e3 if false else 1.5e0 if false else 'z' }}".replace("1e3", "1.0").replace("1.5e0", "1.5"),
    "{{ messages | map(attribute='role') | list }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }}"
    " {{ messages | rejectattr('role', 'in', ['user', 'tool']) | map(attribute='role') | join(', ') }}"
    " {{ undefined_name | default('d') }} {{ '' | default('e', true) }} {{ messages | first is defined }}"
    " {{ {'b': 1, 'a': 2} | dictsort }} {{ {'b': 1, 'a': 2} | items | list }} {{ ['b', 'A', 'c'] | sort }} {{ [3, 1] | sort(reverse=true) }}"
    " {{ ' x ' | trim ~ '|' }} {{ '12' | int + 1 }} {{ 'x' | int(5) }} {{ 3.7 | int }} {{ [1, 2] | sum }} {{ 'a-b c' | title }} {{ 'ab' | reverse }}"
    " {{ 'x' * 3 }} {{ range(3) | list }} {{ 5 is odd }} {{ 5 is divisibleby 5 }} {{ 'a' is in ['a'] }} {{ 1 is none }}",
    "{{ missing.attribute }}", "{{ 1 + 'a' }}", "{{ messages[99].content }}", "{% set x %}a{{ bos_token }}b{% endset %}{{ x | length }}{{ x }}",
    "{% for a, b in [(1, 2), (3, 4)] %}{{ a }}-{{ b }};{{ loop.cycle('x', 'y') }}{% endfor %}{{ a is defined }}",
    "  {% if true %}  \n  kept  \n  {% endif %}  \nx  {%- if true -%}  y  {%- endif -%}  z {{ 1 -}}  w\n\n\n",
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--from", dest="source", type=pathlib.Path)
    args = parser.parse_args()
    env = environment()
    cases = []
    for template in TEMPLATES + (json.loads(args.source.read_text()) if args.source else []):
        for context in contexts():
            try:
                text = env.from_string(template).render(**json.loads(json.dumps(context)))
            except (jinja2.exceptions.TemplateError, TypeError):
                text = None
            cases.append([template, context, text])
    args.file.write_text(json.dumps(cases, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
