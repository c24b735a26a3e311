"""engine: parses and binds statements; large ones in child processes.

sqlglot and the binder are pure Python and take some tens of microseconds for each token. A small
statement is parsed and bound on the event loop. A large one, or one whose tables have many columns,
goes to a child process (`sql.compiling_child`). The child's memory and the seconds of each step are
bounded, and the server kills a child that exceeds a bound. A thread could not be killed, and would
keep the interpreter from the event loop.

A query's results are kept for later ones of the same text (`sql.readings`); such a query is parsed
only when a step needs its tree.

A child starts when it is first needed. The few children are shared between principals by the same
rule as those of `sql.engine`. With `children=0` threads take large statements, without these
bounds.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pickle
import re
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from server import children
from sql import bindings, compiling_child, engine, errors, inputs, limits, readings, threads
from sql.dialect import compilation, operations, parse, resolve, shapes, sqltypes


class Compiler:
    """Parses and binds statements. Mutable: it holds the children."""

    def __init__(
        self,
        *,
        children: int,
        seconds_max: float = limits.READING_SECONDS_MAX,
        growth_bytes: int = limits.READING_BYTES_MAX,
    ) -> None:
        self._has_children = children > 0
        self._turns = engine.Turns(max(1, children))
        self._seconds_max = seconds_max
        self._growth_bytes = growth_bytes
        self.readings = readings.Readings()
        self._idle: list[_Child] = []
        self._children: set[_Child] = set()

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The process ids of the running children."""
        return tuple(child.process_id for child in self._children)

    async def compile(self, text: str, *, owner: str) -> Compilation:
        """Return the one statement of text, parsed; raises SqlError. The caller closes it."""
        compiled = Compilation(compiler=self, text=text, owner=owner)
        await compiled.parse()
        return compiled

    async def split(self, text: str, *, owner: str) -> list[str]:
        """Return the statements of text, as `parse.split` does; raises SqlError."""
        if len(text) <= limits.TEXT_HERE_LENGTH_MAX:
            return parse.split(text)
        _check_length(text)
        if not self._has_children:
            return await asyncio.to_thread(parse.split, text)
        child = await self.take(owner)
        try:
            texts: list[str] = await child.ask("split", text)
            return texts
        finally:
            self.give_back(child, owner)

    async def read_binds(self, document: bytes, *, owner: str) -> Mapping[str, bindings.Binding]:
        """Return the binds of a request from their JSON, decoded in a child; raises SqlError."""
        if not self._has_children:
            return await asyncio.to_thread(inputs.read_large, document)
        child = await self.take(owner)
        try:
            packed: bytes = await child.ask("binds", document)
        finally:
            self.give_back(child, owner)
        binding_by_name: Mapping[str, bindings.Binding] = await asyncio.to_thread(
            pickle.loads, packed
        )
        return binding_by_name

    async def close(self) -> None:
        """End the children."""
        children, self._idle = list(self._children), []
        self._children.clear()
        for child in children:
            child.kill()
        await asyncio.gather(*(child.wait() for child in children))

    @property
    def has_children(self) -> bool:
        """Whether large statements are read in children, and not in threads."""
        return self._has_children

    async def take(self, owner: str) -> _Child:
        """Return a child for owner alone; the caller gives it back.

        Raises SqlError if too many statements wait for a child.
        """
        try:
            await self._turns.take(owner)
        except engine.EngineFault as fault:
            raise errors.resources_exhausted(fault.message) from None
        try:
            while self._idle:
                child = self._idle.pop()
                if child.is_alive:
                    return child
                self._children.discard(child)
            started = await children.start(
                "sql.compiling_child", str(self._growth_bytes), buffer_bytes=1 << 20
            )
            child = _Child(started, self._seconds_max)
        except BaseException:
            self._turns.give_back(owner)
            raise
        self._children.add(child)
        return child

    def give_back(self, child: _Child, owner: str) -> None:
        """Take a child back for other owners; end one that has grown large or has not answered."""
        if child.is_alive and child.resident_bytes <= limits.READER_KEPT_BYTES_MAX:
            self._idle.append(child)
        else:
            child.kill()
            self._children.discard(child)
        self._turns.give_back(owner)


class Compilation:
    """One statement while it is parsed and bound, in this process or in a child. Mutable.

    It holds its child until it is closed.
    """

    def __init__(self, *, compiler: Compiler, text: str, owner: str) -> None:
        self._compiler = compiler
        self._text = text
        self._owner = owner
        self._operation: operations.Operation | None = None
        self._statement: compilation.ParsedStatement | None = None
        self._environment: shapes.Environment | None = None
        self._expanded: dict[int, str] = {}
        self._child: _Child | None = None
        self._is_kept = False
        self._looks = readings.Looks()
        self._steps_of_tree = 0

    @property
    def operation(self) -> operations.Operation:
        """The parsed statement. Only this class uses its tree."""
        assert self._operation is not None
        return self._operation

    async def parse(self) -> None:
        """Parse the text; raises SqlError."""
        self._operation = self._compiler.readings.operation(self._text)
        if self._operation is not None:
            self._is_kept = True
        elif is_small(self._text):
            self._statement = compilation.ParsedStatement(self._text)
            self._operation = self._statement.operation
            if isinstance(self._operation, operations.Query):
                self._is_kept = True
                portable = self._statement.portable_operation
                self._compiler.readings.keep_operation(self._text, portable)
        elif not self._compiler.has_children:
            _check_length(self._text)
            self._statement = await asyncio.to_thread(compilation.ParsedStatement, self._text)
            self._operation = self._statement.operation
        else:
            _check_length(self._text)
            await self._move()

    async def needs(self, environment: shapes.Environment) -> compilation.Needs:
        """Return the tables that the statement uses, which binding needs; raises SqlError."""
        self._environment = environment
        self._expanded = {}
        self._looks = readings.Looks()
        self._steps_of_tree = 0
        if self._is_here:
            result: compilation.Needs = self._read_here("needs", environment)
            return result
        needs: compilation.Needs = await self._ask("needs", await _packed(environment))
        return needs

    async def expand(
        self, environment: shapes.Environment, use: int, text: str
    ) -> compilation.Needs:
        """Return the tables that a view uses, which binding needs; raises SqlError.

        use: the table use that refers to the view. text: its query. Raises SqlError also if the
        views of the statement are too long together.
        """
        length = len(text) + sum(map(len, self._expanded.values()))
        if length > limits.TEXT_LENGTH_MAX:
            raise errors.too_complex(
                f"its views have more than {limits.TEXT_LENGTH_MAX:,} characters"
            )
        needs: compilation.Needs
        if self._is_here and length <= limits.TEXT_HERE_LENGTH_MAX and is_small(text):
            needs = self._read_here("expand", environment, use, text)
        elif self._is_here and not self._compiler.has_children:
            needs = await asyncio.to_thread(self._parsed().expand, environment, use, text)
            self._steps_of_tree += 1
        else:
            needs = await self._ask("expand", await _packed(environment), use, text)
        self._expanded[use] = text
        return needs

    async def bind_count(self, environment: shapes.Environment) -> int:
        """Return the number of values that the placeholders take; raises SqlError."""
        if self._is_here:
            count_here = self._parsed().bind_count(environment)
            self._steps_of_tree = 0  # it has forgotten the views
            return count_here
        count: int = await self._ask("bind_count", await _packed(environment))
        return count

    async def bind_query(self, environment: shapes.Environment) -> resolve.BoundQuery:
        """Return the statement's query bound; raises SqlError.

        environment: its columns_max bounds a statement that is bound in this process; in a child
        the bound is COLUMNS_MAX.
        """
        return await self._bind("bind_query", environment)

    async def bind_into(
        self, environment: shapes.Environment, targets: Sequence[sqltypes.SqlType]
    ) -> resolve.BoundQuery:
        """Return the statement's query bound as rows of these types; raises SqlError."""
        return await self._bind("bind_into", environment, targets)

    async def bind_changes(
        self, environment: shapes.Environment, targets: Sequence[sqltypes.SqlType]
    ) -> resolve.BoundQuery:
        """Return the SELECT of a change bound, with values of these types; raises SqlError."""
        return await self._bind("bind_changes", environment, targets)

    async def bind_source(self, environment: shapes.Environment) -> resolve.BoundQuery:
        """Return the query of a multi-table INSERT bound; raises SqlError."""
        return await self._bind("bind_source", environment)

    async def bind_clause(
        self, environment: shapes.Environment, number: int, targets: Sequence[sqltypes.SqlType]
    ) -> resolve.BoundQuery:
        """Return an INTO clause of a multi-table INSERT bound as rows of these types."""
        return await self._bind("bind_clause", environment, number, targets)

    async def close(self) -> None:
        """Give the child back, if there is one; results remain valid. Idempotent."""
        child, self._child = self._child, None
        if child is not None:
            self._compiler.give_back(child, self._owner)

    async def _bind(
        self, step: str, environment: shapes.Environment, *arguments: Any
    ) -> resolve.BoundQuery:
        bound_query: resolve.BoundQuery
        if self._is_here and _is_small(environment):
            with contextlib.suppress(shapes.ManyColumns):
                bound_query = self._read_here(step, environment, *arguments)
                return bound_query
        everything = dataclasses.replace(environment, columns_max=limits.COLUMNS_MAX)
        if self._is_here and not self._compiler.has_children:
            bind = getattr(self._parsed(), step)
            bound_query = await asyncio.to_thread(bind, everything, *arguments)
            return bound_query
        packed: bytes = await self._ask(step, await _packed(everything), *arguments)
        if len(packed) > limits.ANSWER_HERE_BYTES_MAX:
            return await asyncio.to_thread(compiling_child.unpack_bound, packed)
        return compiling_child.unpack_bound(packed)

    @property
    def _is_here(self) -> bool:
        """Whether this process reads the statement, and no child."""
        return self._child is None and (self._is_kept or self._statement is not None)

    def _read_here(self, step: str, environment: shapes.Environment, *arguments: Any) -> Any:
        """Return what a step gives: of a query, what it gave before where that is the same."""

        def read(environment: shapes.Environment) -> Any:
            statement = self._parsed() if step != "needs" else self._tree()
            result = getattr(statement, step)(environment, *arguments)
            self._steps_of_tree += step in ("needs", "expand")
            return result

        if not self._is_kept or step not in readings.STEPS:
            return read(environment)
        views = tuple(self._expanded.items())
        named = readings.ReadingStep(name=step, text=self._text, views=views, arguments=arguments)
        return self._compiler.readings.result(named, environment, self._looks, read)

    def _tree(self) -> compilation.ParsedStatement:
        if self._statement is None:
            self._statement = compilation.ParsedStatement(self._text)
        return self._statement

    def _parsed(self) -> compilation.ParsedStatement:
        """Return the statement with its tree, which has been through the steps before this one.

        Those whose results were kept are taken now.
        """
        statement = self._tree()
        if self._environment is None:
            return statement
        if self._steps_of_tree == 0:
            statement.needs(self._environment)
            self._steps_of_tree = 1
        for use, text in list(self._expanded.items())[self._steps_of_tree - 1 :]:  # as numbered
            statement.expand(self._environment, use, text)
            self._steps_of_tree += 1
        return statement

    async def _ask(self, step: str, *arguments: Any) -> Any:
        if self._child is None:
            await self._move()
            if self._environment is not None and step != "needs":
                environment = await _packed(self._environment)
                await self._ask("needs", environment)
                for use, text in self._expanded.items():  # in the order of their numbers
                    await self._ask("expand", environment, use, text)
        assert self._child is not None
        return await self._child.ask(step, *arguments)

    async def _move(self) -> None:
        self._child = await self._compiler.take(self._owner)
        try:
            self._operation = await self._child.ask("parse", self._text)
        except BaseException:
            await self.close()
            raise
        self._statement = None
        self._is_kept = False


def is_small(text: str) -> bool:
    """Return whether parsing text takes some milliseconds at most."""
    if len(text) <= limits.TOKENS_HERE_MAX:
        return True
    if len(text) > limits.TEXT_HERE_LENGTH_MAX:
        return False
    return len(TOKENS.findall(text)) <= limits.TOKENS_HERE_MAX


TOKENS = re.compile(r"\w+|[^\w\s]")
"""Counts at least as many tokens as the tokenizer does: it also splits strings and comments."""


def _is_small(environment: shapes.Environment) -> bool:
    if len(environment.binds or ()) > limits.BINDS_HERE_MAX:
        return False
    columns = sum(len(table.columns) for table in environment.tables)
    return columns <= limits.COLUMNS_HERE_MAX


async def _packed(environment: shapes.Environment) -> bytes:
    columns = sum(len(table.columns) for table in environment.tables)
    return await threads.for_columns(columns, compiling_child.pack_environment, environment)


def _check_length(text: str) -> None:
    if len(text) > limits.TEXT_LENGTH_MAX:
        raise errors.too_complex(f"its text has more than {limits.TEXT_LENGTH_MAX:,} characters")


class _Child:
    """A child process and the socket to it. Mutable."""

    def __init__(self, child: children.Child, seconds_max: float) -> None:
        self._process, self._reader, self._writer = child.process, child.reader, child.writer
        self._seconds_max = seconds_max
        self._is_asked = False
        self.resident_bytes = 0

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return (
            not self._is_asked
            and self._process.returncode is None
            and not self._reader.at_eof()
            and not self._writer.is_closing()
        )

    async def ask(self, step: str, *arguments: Any) -> Any:
        """Return a step's result; raises SqlError. A step that takes too long ends the child."""
        # True until the answer is here: if the caller stops waiting, the child is ended.
        self._is_asked = True
        try:
            async with asyncio.timeout(self._seconds_max):
                body = await self._answer(pickle.dumps((step, arguments), protocol=5))
        except TimeoutError:
            self.kill()
            raise errors.too_complex(
                f"reading it took longer than {self._seconds_max:g} seconds"
            ) from None
        except (asyncio.IncompleteReadError, ConnectionError):
            self.kill()
            raise errors.too_complex("there is not enough memory to read it") from None
        except BaseException:
            self.kill()
            raise
        self._is_asked = False
        if len(body) > limits.ANSWER_HERE_BYTES_MAX:
            good, result, self.resident_bytes = await asyncio.to_thread(pickle.loads, body)
        else:
            good, result, self.resident_bytes = pickle.loads(body)
        if good:
            return result
        raise errors.SqlError.of_parts(result)

    async def _answer(self, request: bytes) -> bytes:
        length = compiling_child.LENGTH
        self._writer.writelines((length.pack(len(request)), request))
        await self._writer.drain()
        (size_bytes,) = length.unpack(await self._reader.readexactly(length.size))
        return await self._reader.readexactly(size_bytes)

    def kill(self) -> None:
        self._writer.close()
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)

    async def wait(self) -> None:
        """Return when the process has ended."""
        await self._process.wait()
