"""engine: names of Java's classes, without a question to the JVM for each package.

py4j asks the JVM what `org`, `org.apache` and each further part of a name is. The JVM looks for a
class of that name, once for each of PySpark's dozen imports, in all of Spark's 250 jars: a sixth of
what short jobs cost. A part of a name that begins with a capital letter is a class here, as Java's
conventions say, and any other part a package. The JVM is asked when a class is used.
"""

from __future__ import annotations

from typing import Any

ROOTS = ("java", "javax", "org", "py4j", "scala")


class Package:
    """A package of Java; its attributes are its packages and classes."""

    __slots__ = ("_client", "_name")

    def __init__(self, name: str, client: Any) -> None:
        self._name = name
        self._client = client

    def __getattr__(self, name: str) -> Any:
        # Imported here: PySpark is only there once Spark's half is installed.
        from py4j.java_gateway import JavaClass

        if name.startswith("__"):
            raise AttributeError(name)
        full_name = f"{self._name}.{name}"
        if name[0].isupper():
            return JavaClass(full_name, self._client)
        return Package(full_name, self._client)


def install(java_gateway: Any) -> None:
    """Let a gateway's view of the JVM, PySpark's too, find classes without these questions."""
    for root in ROOTS:
        setattr(java_gateway.jvm, root, Package(root, java_gateway._gateway_client))  # noqa: SLF001 - py4j's only way
