"""Names of Java's classes cost no question to the JVM."""

from __future__ import annotations

from typing import Any

import pytest
from py4j import java_gateway, protocol

from pipeline import javanames


class Jvm:
    """The JVM's end of a gateway: keeps each command, and answers as for an object."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        self.gateway_property = java_gateway.GatewayProperty(auto_field=False, pool=None)
        self.converters: tuple[Any, ...] = ()
        self.is_connected = True

    def send_command(self, command: str, *_: Any, **__: Any) -> str:
        self.commands.append(command)
        return f"{protocol.SUCCESS}{protocol.STRING_TYPE}here"


class Gateway:
    def __init__(self, jvm: Jvm) -> None:
        self._gateway_client = jvm
        self.jvm = java_gateway.JVMView(jvm, "a view", id="rj")


@pytest.fixture
def jvm() -> Jvm:
    return Jvm()


@pytest.fixture
def view(jvm: Jvm) -> Any:
    gateway = Gateway(jvm)
    javanames.install(gateway)
    return gateway.jvm


def test_a_class_is_found_without_a_question_for_its_packages(view: Any, jvm: Jvm) -> None:
    identifier = view.org.apache.iceberg.catalog.TableIdentifier
    assert isinstance(identifier, java_gateway.JavaClass)
    assert identifier._fqn == "org.apache.iceberg.catalog.TableIdentifier"
    assert view.java.lang.String._fqn == "java.lang.String"
    assert jvm.commands == []


def test_an_object_is_made_by_one_command_that_names_the_class(view: Any, jvm: Jvm) -> None:
    assert view.java.util.ArrayList() == "here"
    (command,) = jvm.commands
    # Reference: py4j's protocol: i, the class's full name, arguments, the end.
    assert command == "i\njava.util.ArrayList\ne\n"


def test_what_is_no_name_of_java_is_no_package(view: Any, jvm: Jvm) -> None:
    assert not hasattr(view.org, "__deepcopy__")
    assert jvm.commands == []
