"""A run as a tree in the terminal (B9)."""

from collections.abc import Mapping

from rich.text import Text
from rich.tree import Tree

from daemon.client.run_tree import TreeNode, build_tree
from daemon.client.views import RunBundle

STYLES: Mapping[str, str] = {
    "agent": "bold green",
    "bad": "red",
    "busy": "cyan",
    "dim": "dim",
    "good": "green",
    "model": "bold blue",
    "person": "magenta",
    "strong": "bold",
    "tool": "bold cyan",
    "waiting": "blue",
    "warn": "yellow",
}


def render_run(bundle: RunBundle) -> Tree:
    """One run, step by step."""
    top = build_tree(bundle)
    tree = Tree(_render_label(top), guide_style="dim")
    _add_nodes(tree, top)
    return tree


def _add_nodes(tree: Tree, top: TreeNode) -> None:
    for node in top.nodes:
        _add_nodes(tree.add(_render_label(node)), node)


def _render_label(node: TreeNode) -> Text:
    return Text.assemble(*((text, STYLES.get(tone, "")) for text, tone in node.spans))
