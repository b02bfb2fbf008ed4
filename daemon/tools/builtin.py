"""Assembles the built-in tools."""

from collections.abc import Sequence

from daemon.tools.base import Tool
from daemon.tools.basic import (
    ask_tool,
    current_time,
    find_tools,
    request_more_iterations,
    todo,
)
from daemon.tools.calculate import calculate
from daemon.tools.config import ToolsConfig
from daemon.tools.documents.reader import DocumentReader
from daemon.tools.memory_tools import OwnersMemory, forget, recall, recall_others, remember
from daemon.tools.plan_tool import plan_tool
from daemon.tools.registry import ToolRegistry
from daemon.tools.shell.background import BackgroundCommands, check_command, stop_tool
from daemon.tools.shell.tool import Shell, shell_tool
from daemon.tools.signature import bind
from daemon.tools.workspace.edits import delete_line, edit_file, write_file
from daemon.tools.workspace.file_store import FileStore, copy_file, move_file
from daemon.tools.workspace.files import FileReader, SearchScope, list_dir, read_file, search_files
from daemon.tools.workspace.git_commit import Committer, git_commit
from memory.memory import Memory


def build_tools(
    *,
    config: ToolsConfig,
    terminal: Shell,
    files: FileStore,
    memories: OwnersMemory,
    documents: DocumentReader,
    more: Sequence[Tool] = (),
) -> ToolRegistry:
    """The built-in tools and `more`, as the config enables them. Raises ConfigError for two tools
    of one name.
    """
    scope = SearchScope(files, tuple(config.protected_paths))
    committer = Committer(files, terminal.sandbox, scope, terminal.protected)
    parts: dict[type, object] = {
        FileStore: files,
        FileReader: FileReader(files, documents),
        SearchScope: scope,
        Committer: committer,
        Memory: memories.memory,
        OwnersMemory: memories,
        Shell: terminal,
        BackgroundCommands: terminal.background,
    }
    offered = (*BUILTIN_TOOLS, git_commit) if committer.is_offered else BUILTIN_TOOLS
    commands = shell_tool(terminal), stop_tool(terminal.background)
    tools = [*bind(offered, parts), ask_tool(), *commands, *more]
    catalogue = ToolRegistry(tools, enabled=config.enabled, disabled=config.disabled)
    own = [*bind([find_tools], {ToolRegistry: catalogue}), plan_tool(files.store, catalogue)]
    catalogue.replace_source(find_tools.name, own)
    return catalogue


BUILTIN_TOOLS = (
    current_time,
    calculate,
    remember,
    recall,
    recall_others,
    forget,
    read_file,
    request_more_iterations,
    write_file,
    edit_file,
    delete_line,
    copy_file,
    move_file,
    list_dir,
    search_files,
    todo,
    check_command,
)
