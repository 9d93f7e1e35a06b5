"""The package `mcp` for Python at work: mcp_client.py MODE URL, or MODE COMMAND ARGUMENT…, with TOKEN. Results are
compared with their schemas by the client itself, which raises what does not fit."""

import base64
import os
import sys
import warnings

import anyio
import httpx2
import jsonschema
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from steps import tell

warnings.filterwarnings("ignore")
MODE, *TARGET = sys.argv[1:]
PATIENCE = 60
SLOW = {"prompt": "steps=500 ms=20"}


def target():
    if not TARGET[0].startswith("http"):
        return StdioServerParameters(command=TARGET[0], args=TARGET[1:])
    head = {"Authorization": "Bearer " + os.environ["TOKEN"]}
    return streamable_http_client(TARGET[0], http_client=httpx2.AsyncClient(headers=head, timeout=60))


async def refused(call):
    try:
        return (await call).is_error
    except MCPError as failure:
        return failure.code


def check_schemas(tool):
    jsonschema.Draft202012Validator.check_schema(tool.input_schema)
    jsonschema.Draft202012Validator.check_schema(tool.output_schema)
    return tool.name


async def draw(client):
    told = []

    async def progress(at, total, message):
        told.append(at)

    result = await client.call_tool("generate_image", {"prompt": "a boat, steps=20 ms=20", "seed": "7"},
                                    progress_callback=progress)
    link = next(block for block in result.content if block.type == "resource_link")
    whole = base64.b64decode((await client.read_resource(link.uri)).contents[0].blob)
    grows = told == sorted(set(told)) and told[0] == 0 and told[-1] == 100
    return [[block.type for block in result.content], result.structured_content["images"][0]["seed"], grows,
            len(whole) == link.size]


async def leave(client):
    """Another call is answered while a slow one runs, which is then given up."""
    between = None
    with anyio.move_on_after(PATIENCE) as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "generate_image", SLOW)
            between = (await client.call_tool("get_status", {})).is_error
            group.cancel_scope.cancel()
    return [between, scope.cancelled_caught, (await client.call_tool("get_status", {})).is_error]


async def main():
    async with Client(target(), mode=MODE) as client:
        tell("version", client.protocol_version)
        tell("tools", [check_schemas(tool) for tool in (await client.list_tools()).tools])
        tell("status", (await client.call_tool("get_status", {})).structured_content["model"])
        tell("draw", await draw(client))
        failure = await client.call_tool("get_job", {"job_id": "job_" + "0" * 26})
        tell("fail", [failure.is_error, failure.content[0].text.split(":")[0]])
        tell("refuse", await refused(client.call_tool("no_such_tool", {})))
        tell("refuse", await refused(client.call_tool("generate_image", {"no_such_argument": 1})))
        tell("leave", await leave(client))


anyio.run(main)
