"""The ten longest modules and functions of the product, for a look and not a verdict.

`make check` prints them: python -m tests.longest
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHOWN = 10


def main() -> None:
    """Print the lists."""
    modules: list[tuple[int, str]] = []
    functions: list[tuple[int, str]] = []
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith((".", "tests/")):
            continue
        text = path.read_text()
        modules.append((text.count("\n"), name))
        functions += [
            (1 + (node.end_lineno or node.lineno) - node.lineno, f"{name}: {node.name}")
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
    for title, rows in (("modules", modules), ("functions", functions)):
        print(f"the longest {title}, in lines")
        for lines, name in sorted(rows, reverse=True)[:SHOWN]:
            print(f"  {lines:5}  {name}")


if __name__ == "__main__":
    main()
