"""Which (API, error code) pairs Kafka's handlers can give, by their byte code.

    python -m tests.conformance_kafka.error_pairs             # what the list and the byte code differ in
    python -m tests.conformance_kafka.error_pairs --write     # write the list anew

From the handler of an API in ControllerApis or AclApis the calls are followed, through lambdas, method
references and whatever implements an interface, in the classes of `SCANNED`. A code counts for the API if a
method on the way mentions its constant in `Errors`, or makes an exception that `Errors` turns into it.

That is an approximation from above: who compares with a code mentions it, too, and who catches an exception
may turn it into another. It does not see what is in every request's way (`NOT_HERE`), nor the errors of a
request that cannot be read. What the list has and no request can get is in `unreachable.json`, with the fact
that proves it; what a request might get, and none here does, in `unreached.json` with its reason.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from kraftd.errors import ErrorCode
from tests import commands
from tests.interop.peer import RELEASE, Kafka, NoKafkaError, find_kafka

PAIRS = Path(__file__).parent / "error_pairs.json"
"""By API, the names of codes, each with the methods that mention it."""
UNREACHABLE = Path(__file__).parent / "unreachable.json"
"""By API, the names of codes that no request can get, each with the fact in the byte code that says so."""
UNREACHED = Path(__file__).parent / "unreached.json"
"""By API, the names of codes that nothing here reaches, each with the reason."""

SCANNED: Mapping[str, tuple[str, ...]] = {
    "kafka_2.13": (
        r"kafka/server/(ControllerApis|AclApis|AuthHelper|ControllerConfigurationValidator)(\$.*)?",
    ),
    "kafka-metadata": (
        r"org/apache/kafka/controller/[^/]*",
        r"org/apache/kafka/metadata/(placement|authorizer|util)/[^/]*",
        r"org/apache/kafka/metadata/[^/]*",
    ),
    "kafka-clients": (
        r"org/apache/kafka/common/internals/Topic",
        r"org/apache/kafka/common/requests/ApiError",
    ),
    "kafka-server": (r"org/apache/kafka/server/quota/[^/]*",),
    "kafka-storage": (r"org/apache/kafka/storage/internals/log/LogConfig",),
}
HANDLERS: Mapping[str, tuple[str, str]] = {
    "AllocateProducerIds": ("kafka/server/ControllerApis", "handleAllocateProducerIdsRequest"),
    "AlterClientQuotas": ("kafka/server/ControllerApis", "handleAlterClientQuotas"),
    "AlterConfigs": ("kafka/server/ControllerApis", "handleLegacyAlterConfigs"),
    "AlterPartition": ("kafka/server/ControllerApis", "handleAlterPartitionRequest"),
    "AlterPartitionReassignments": ("kafka/server/ControllerApis", "handleAlterPartitionReassignments"),
    "AlterUserScramCredentials": ("kafka/server/ControllerApis", "handleAlterUserScramCredentials"),
    "AssignReplicasToDirs": ("kafka/server/ControllerApis", "handleAssignReplicasToDirs"),
    "BrokerHeartbeat": ("kafka/server/ControllerApis", "handleBrokerHeartBeatRequest"),
    "BrokerRegistration": ("kafka/server/ControllerApis", "handleBrokerRegistration"),
    "ControllerRegistration": ("kafka/server/ControllerApis", "handleControllerRegistration"),
    "CreateAcls": ("kafka/server/AclApis", "handleCreateAcls"),
    "CreateDelegationToken": ("kafka/server/ControllerApis", "handleCreateDelegationTokenRequest"),
    "CreatePartitions": ("kafka/server/ControllerApis", "handleCreatePartitions"),
    "CreateTopics": ("kafka/server/ControllerApis", "handleCreateTopics"),
    "DeleteAcls": ("kafka/server/AclApis", "handleDeleteAcls"),
    "DeleteTopics": ("kafka/server/ControllerApis", "handleDeleteTopics"),
    "DescribeAcls": ("kafka/server/AclApis", "handleDescribeAcls"),
    "DescribeCluster": ("kafka/server/ControllerApis", "handleDescribeCluster"),
    "ElectLeaders": ("kafka/server/ControllerApis", "handleElectLeaders"),
    "ExpireDelegationToken": ("kafka/server/ControllerApis", "handleExpireDelegationTokenRequest"),
    "IncrementalAlterConfigs": ("kafka/server/ControllerApis", "handleIncrementalAlterConfigs"),
    "ListPartitionReassignments": ("kafka/server/ControllerApis", "handleListPartitionReassignments"),
    "RenewDelegationToken": ("kafka/server/ControllerApis", "handleRenewDelegationTokenRequest"),
    "UnregisterBroker": ("kafka/server/ControllerApis", "handleUnregisterBroker"),
    "UpdateFeatures": ("kafka/server/ControllerApis", "handleUpdateFeatures"),
}
NOT_HERE = {"NONE", "NOT_CONTROLLER", "UNKNOWN_SERVER_ERROR"}
"""What is no error, what every API says where another controller leads, and what only a defect leads to."""
TOLD_OF_A_PARTITION = "AlterPartition"
"""Where NOT_CONTROLLER is also said of a partition."""
_ERRORS = "org/apache/kafka/common/protocol/Errors"
_MORE_EXCEPTIONS = {
    "org/apache/kafka/common/config/ConfigException": "INVALID_CONFIG",
}
"""Those that the controller itself turns into others."""
_TOLD_BY_A_CALL = {
    "requestTimeoutMsToDeadlineNs": "REQUEST_TIMED_OUT",
    "newArrayBacked": "POLICY_VIOLATION",
}
"""What a call leads to that no method here mentions: an event with a deadline, a list with a bound."""
_EXISTENCE = "org/apache/kafka/controller/QuorumController$ConfigResourceExistenceChecker"
_HANDED_OVER = {"validateAlterConfig": (_EXISTENCE, "accept")}
"""What a method has been given, and calls by an interface of Java's own: those are not followed."""
_INVOKED = re.compile(r"// (?:Interface)?Method (?:(\S+)\.)?(\S+?):(\(\S*)")
_HELD = re.compile(r"REF_(?:invoke|newInvoke)\w+ (\S+)\.(\S+?):(\(\S*)")
_MADE = re.compile(r"\bnew\s+#\d+\s+// class (\S+)")
_CONSTANT = re.compile(rf"getstatic\s+#\d+\s+// Field {_ERRORS}\.(\w+):")
_CONSTRUCTED = re.compile(
    rf"// class {_ERRORS}\n(?:.*\n){{1,2}}.*// String (\w+)\n"
    r"(?:.*\n){2,3}.*// String .*\n.*InvokeDynamic #(\d+):"
)
_LAMBDA, _OUTER = re.compile(r"^lambda\$(\w+)\$.*"), r"\1"

Method = tuple[str, str, str]
"""Class, name and descriptor."""


class Code(msgspec.Struct):
    """What one method does, as far as it matters here."""

    calls: set[Method] = msgspec.field(default_factory=set)
    bootstraps: set[int] = msgspec.field(default_factory=set)
    made: set[str] = msgspec.field(default_factory=set)
    constants: set[str] = msgspec.field(default_factory=set)


class Classes:
    """The methods of the classes that were read, and who implements what."""

    def __init__(self) -> None:
        self.methods: dict[Method, Code] = {}
        self.children: dict[str, set[str]] = {}

    def read(self, text: str) -> None:
        """Take in what `javap -v -p` said of classes."""
        for part in re.split(r"(?m)^Classfile ", text)[1:]:
            self._read_class(part)

    def targets(self, method: Method) -> Iterator[Method]:
        """The methods that a call of this one may reach."""
        owner, name, descriptor = method
        if method in self.methods:
            yield method
        for child in () if owner.startswith("java/") else self.children.get(owner, ()):
            yield from self.targets((child, name, descriptor))

    def of_class(self, owner: str) -> Iterator[Method]:
        """All methods of a class."""
        return (each for each in self.methods if each[0] == owner)

    def _read_class(self, text: str) -> None:
        found = re.search(r"this_class: #\d+\s+// (\S+)", text)
        assert found is not None
        owner = found.group(1).strip('"')
        head = text[: found.start()]
        for each in re.findall(r"(?:extends|implements) ([^{\n]+)", head):
            for parent in re.split(
                r",\s*|\s+implements\s+", re.sub(r"<[^<>]*(?:<[^<>]*>)*[^<>]*>", "", each)
            ):
                self.children.setdefault(parent.strip().replace(".", "/"), set()).add(owner)
        held = _held(text.partition("\nBootstrapMethods:")[2])
        body = text.partition("\n{\n")[2].partition("\nBootstrapMethods:")[0]
        for chunk in re.split(r"\n\n  (?=\S)", body):
            self._read_method(owner, chunk, held)

    def _read_method(self, owner: str, text: str, held: Mapping[int, set[Method]]) -> None:
        named = re.search(r"([\w$<>]+)\([^\n]*\n\s+descriptor: (\(\S*)", text)
        if named is None:
            return
        name = named.group(1)
        code = Code()
        for line in text.splitlines():
            if "invokedynamic" in line:
                number = re.search(r"InvokeDynamic #(\d+):", line)
                code.calls |= held.get(int(number.group(1)) if number else -1, set())
            elif "invoke" in line and (call := _INVOKED.search(line)):
                code.calls.add((call.group(1) or owner, call.group(2).strip('"'), call.group(3)))
            elif made := _MADE.search(line):
                code.made.add(made.group(1))
            elif constant := _CONSTANT.search(line):
                code.constants.add(constant.group(1))
        self.methods[owner, name, named.group(2)] = code


def pairs_of(kafka: Kafka) -> dict[str, dict[str, list[str]]]:
    """By API, the names of the codes that its handler can give, and where."""
    classes = Classes()
    for jar, patterns in SCANNED.items():
        classes.read(_disassembled(kafka, jar, patterns))
    exceptions = {**_exceptions(kafka), **_MORE_EXCEPTIONS}
    return {api: _reached(classes, exceptions, api, *handler) for api, handler in sorted(HANDLERS.items())}


def listed() -> dict[str, dict[str, list[str]]]:
    """The list as it is in the repository."""
    return msgspec.json.decode(PAIRS.read_bytes(), type=dict[str, dict[str, list[str]]])


def unreachable() -> dict[str, dict[str, str]]:
    """The pairs of the list that no request can get, with what proves it."""
    return msgspec.json.decode(UNREACHABLE.read_bytes(), type=dict[str, dict[str, str]])


def reachable() -> set[tuple[str, str]]:
    """The pairs of the list that a request may get, by API and name."""
    dead = unreachable()
    return {(api, name) for api, codes in listed().items() for name in codes if name not in dead.get(api, {})}


def unreached() -> dict[str, dict[str, str]]:
    """The pairs that a request may get and none here does, with the reasons."""
    return msgspec.json.decode(UNREACHED.read_bytes(), type=dict[str, dict[str, str]])


def missing(reached: Iterable[tuple[str, int]]) -> list[tuple[str, str]]:
    """The pairs that a request may get and that were not reached, by API and name."""
    return sorted(reachable() - _names(reached))


def impossible(reached: Iterable[tuple[str, int]]) -> list[tuple[str, str]]:
    """The pairs that were reached although no request can get them: the proof is wrong."""
    dead = {(api, name) for api, names in unreachable().items() for name in names}
    return sorted(dead & _names(reached))


def _names(reached: Iterable[tuple[str, int]]) -> set[tuple[str, str]]:
    return {(api, ErrorCode(code).name) for api, code in reached}


def _reached(
    classes: Classes, exceptions: Mapping[str, str], api: str, owner: str, handler: str
) -> dict[str, list[str]]:
    seen: set[Method] = set()
    todo = [each for each in classes.of_class(owner) if each[1] == handler]
    assert todo, f"{owner} has no {handler}"
    found: dict[str, set[str]] = {}
    while todo:
        method = todo.pop()
        if method in seen:
            continue
        seen.add(method)
        code = classes.methods[method]
        by_calls = {_TOLD_BY_A_CALL[name] for _, name, _ in code.calls if name in _TOLD_BY_A_CALL}
        names = by_calls | code.constants | {exceptions[each] for each in code.made if each in exceptions}
        for name in names - NOT_HERE if api != TOLD_OF_A_PARTITION else names - {"NONE"}:
            found.setdefault(name, set()).add(_where(method))
        for call in code.calls:
            todo += classes.targets(call)
        todo += [each for each in classes.methods if each[:2] == _HANDED_OVER.get(method[1])]
        for made in code.made:
            if re.search(r"\$\d+$", made):
                todo += classes.of_class(made)
    return {name: sorted(where) for name, where in sorted(found.items())}


def _where(method: Method) -> str:
    owner = method[0].rpartition("/")[2]
    return f"{owner}.{_LAMBDA.sub(_OUTER, method[1])}"


def _held(bootstraps: str) -> dict[int, set[Method]]:
    """By number, the methods that an invokedynamic holds."""
    found: dict[int, set[Method]] = {}
    number = -1
    for line in bootstraps.splitlines():
        if begins := re.match(r"  (\d+): #", line):
            number = int(begins.group(1))
        elif held := _HELD.search(line):
            found.setdefault(number, set()).add((held.group(1), held.group(2).strip('"'), held.group(3)))
    return found


def _exceptions(kafka: Kafka) -> dict[str, str]:
    """The classes of exceptions, each with the name of its code."""
    text = _disassembled(kafka, "kafka-clients", (_ERRORS,))
    held = _held(text.partition("\nBootstrapMethods:")[2])
    bodies = Classes()
    bodies.read(text)
    found = {}
    for name, number in _CONSTRUCTED.findall(text):
        for owner, method, descriptor in held[int(number)]:
            made = {owner} if method == "<init>" else bodies.methods[owner, method, descriptor].made
            found.update(dict.fromkeys(made, name))
    return found


def _disassembled(kafka: Kafka, jar: str, patterns: Sequence[str]) -> str:
    path = kafka.jar(jar)
    listing = subprocess.run(["jar", "tf", path], capture_output=True, text=True, check=True).stdout
    wanted = re.compile("|".join(f"(?:{each})" for each in patterns))
    names = [
        line.removesuffix(".class").replace("/", ".")
        for line in listing.splitlines()
        if line.endswith(".class") and wanted.fullmatch(line.removesuffix(".class"))
    ]
    command = ["javap", "-v", "-p", "-cp", f"{kafka.jars}/*", *names]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main(words: Sequence[str] | None = None) -> int:
    """Compare the list with the byte code, or write it; the exit code."""
    parser = commands.Parser(prog="error_pairs", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the list anew")
    options = parser.parse_args(words)
    try:
        kafka = find_kafka(RELEASE)
    except NoKafkaError as error:
        print(f"skipped: {error}", file=sys.stderr)
        return 3
    found = pairs_of(kafka)
    if options.write:
        PAIRS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(f"{sum(map(len, found.values()))} pairs")
        return 0
    known = listed()
    for api in sorted({*found, *known}):
        for name in sorted({*found.get(api, {})} ^ {*known.get(api, {})}):
            print(f"{'+' if name in found.get(api, {}) else '-'} {api}: {name}")
    return int(found != known)


if __name__ == "__main__":
    commands.run(main)
