"""The tools that come with the house, put together."""

from collections.abc import Sequence

from daemon.tools.background import Background, check_command, stop_command
from daemon.tools.base import Tool
from daemon.tools.budget import request_more_iterations
from daemon.tools.changes import Files
from daemon.tools.clock import current_time
from daemon.tools.config import ToolsConfig
from daemon.tools.decorate import Definition, bind
from daemon.tools.files import copy_file, edit_file, list_dir, read_file, write_file
from daemon.tools.finding import find_tools
from daemon.tools.recall import Memories, recall, remember
from daemon.tools.search import Searchable, search_files
from daemon.tools.shell import Shell, shell_tool
from daemon.tools.todo import todo
from daemon.tools.toolbox import Tools, check_names


def builtin(
    *, config: ToolsConfig, terminal: Shell, files: Files, memories: Memories, more: Sequence[Tool] = ()
) -> Tools:
    """Everything that can be called: the house's own and `more`, found by find_tools, switched as the config says.

    Raises ConfigError for a name in the config that fits no tool, and for two tools of one name.
    """
    parts: dict[type, object] = {
        Files: files,
        Searchable: Searchable(files, tuple(config.protected_paths)),
        Memories: memories,
        Shell: terminal,
        Background: terminal.background,
    }
    tools = [*bind([*OWN, shell_tool(terminal)], parts), *more]
    check_names([*(tool.name for tool in tools), find_tools.name], enabled=config.enabled, disabled=config.disabled)
    catalogue = Tools(tools, enabled=config.enabled, disabled=config.disabled)
    catalogue.adopt(find_tools.name, bind([find_tools], {Tools: catalogue}))
    return catalogue


OWN: tuple[Definition, ...] = (
    current_time,
    remember,
    recall,
    read_file,
    request_more_iterations,
    write_file,
    edit_file,
    copy_file,
    list_dir,
    search_files,
    todo,
    check_command,
    stop_command,
)
