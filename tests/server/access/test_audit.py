"""The audit log: what is written, where it ends, and what happens when it cannot be written."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import msgspec
import pytest

from server import limits
from server.access import audit, errors, model
from storage import disk
from storage import errors as storage_errors
from tests.kit import waits
from tests.server import requesting
from tests.server.requesting import run

ROOT = requesting.people().root
WRITE = model.Demand(action="s3:PutObject", resource="arn:aws:s3:::b/k", place="b/k")
DELETE = model.Demand(action="s3:DeleteObject", resource="arn:aws:s3:::b/k")
ALLOWED = model.Decision(allow=True, reason="root")
DENIED = model.Decision(allow=False, reason="explicit-deny", statements=("NotToday",))


def make(tmp_path, **more):
    return audit.Audit(
        folder=tmp_path / "audit", disk=more.pop("disk", disk.Disk()), now_ms=requesting.Clock()
    )


def lines(tmp_path):
    return [
        json.loads(line)
        for path in sorted((tmp_path / "audit").iterdir())
        for line in path.read_text().splitlines()
    ]


def whole_lines(tmp_path):
    """Return the lines that end: the writer may be in the middle of the last one."""
    texts = [path.read_text() for path in sorted((tmp_path / "audit").iterdir())]
    return [json.loads(line) for text in texts for line in text.split("\n")[:-1]]


def files(tmp_path, prefix):
    return [
        json.loads(line)
        for path in sorted((tmp_path / "audit").glob(f"{prefix}-*"))
        for line in path.read_text().splitlines()
    ]


def during(log, act):
    """Start the log, act, stop it."""

    async def live():
        await log.start()
        act()
        await log.stop()

    run(live())


def test_lines_say_who_what_and_why(tmp_path):
    log = make(tmp_path)

    def act():
        entry = log.begin("r1", "s3")
        entry.credential_id = "AK"
        log.record(ROOT, WRITE, ALLOWED)
        log.record(ROOT, DELETE, DENIED)
        log.record_outcome(entry, 403, duration_ns=1_500_000)
        log.record_refusal(log.begin("r2", "iceberg"), "ExpiredToken", client_ip="10.0.0.1")

    during(log, act)
    common = {"time": "2025-11-21T16:00:00.000+00:00", "request_id": "r1", "face": "s3",
              "credential": "AK"}  # fmt: skip
    root = "arn:aws:iam::000000000000:root"
    assert files(tmp_path, "audit") + files(tmp_path, "anonymous") == [
        {**common, "event": "allow", "principal": root, "action": "s3:PutObject",
         "resource": "arn:aws:s3:::b/k", "reason": "root", "place": "b/k"},
        {**common, "event": "deny", "principal": root, "action": "s3:DeleteObject",
         "resource": "arn:aws:s3:::b/k", "reason": "explicit-deny", "statements": ["NotToday"]},
        {**common, "event": "outcome", "status": 403, "ms": 1.5},
        {"time": common["time"], "request_id": "r2", "face": "iceberg", "event": "refuse",
         "reason": "ExpiredToken", "ip": "10.0.0.1"},
    ]  # fmt: skip


def test_lines_are_written_together_without_waiting_for_the_end(tmp_path):
    log = make(tmp_path)

    async def live():
        await log.start()
        for _ in range(100):
            log.record(ROOT, WRITE, ALLOWED)
        async with asyncio.timeout(60):
            while len(whole_lines(tmp_path)) < 100:  # noqa: ASYNC110 - what is waited for is a file
                await asyncio.sleep(0.01)
        await log.stop()

    run(live())
    assert len(lines(tmp_path)) == 100


def test_every_start_begins_a_file_of_its_own(tmp_path):
    for _ in range(2):
        log = make(tmp_path)
        during(log, lambda log=log: log.record(ROOT, WRITE, ALLOWED))
    names = sorted(path.name for path in (tmp_path / "audit").iterdir())
    assert names == ["audit-0000000001.jsonl", "audit-0000000002.jsonl"]


def test_full_file_is_followed_by_another_and_the_oldest_goes(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "AUDIT_FILE_BYTES_MAX", 1)
    monkeypatch.setattr(limits, "AUDIT_FILES_MAX", 3)
    log = make(tmp_path)

    async def live():
        await log.start()
        for number in range(5):
            log.record(ROOT, model.Demand(action="s3:PutObject", resource=str(number)), ALLOWED)
            await log._write_waiting()
        await log.stop()

    run(live())
    assert [line["resource"] for line in lines(tmp_path)] == ["2", "3", "4"]


def test_nothing_to_say_makes_no_file(tmp_path):
    during(make(tmp_path), lambda: None)
    assert list((tmp_path / "audit").iterdir()) == []


class FullDisk(disk.Disk):
    full = True

    def write(self, descriptor, data):
        if self.full:
            raise storage_errors.DiskFull("the disk has no room left")
        super().write(descriptor, data)


def test_log_that_cannot_be_written_refuses_writes_and_lets_deletes_go_on(tmp_path):
    full = FullDisk()
    log = make(tmp_path, disk=full)

    async def live():
        await log.start()
        log.record(ROOT, WRITE, ALLOWED)
        await log._write_waiting()
        assert log.is_stuck
        with pytest.raises(storage_errors.DiskFull, match="no room left"):
            log.record(ROOT, WRITE, ALLOWED)
        assert list((tmp_path / "audit").iterdir()) == []
        log.record(ROOT, WRITE, DENIED)
        log.record(ROOT, DELETE, ALLOWED)
        full.full = False
        await log._write_waiting()
        log.record(ROOT, WRITE, ALLOWED)
        await log.stop()

    run(live())
    # What waited was written, and nothing twice.
    written = [(line["event"], line["action"]) for line in lines(tmp_path)]
    assert written == [
        ("allow", "s3:PutObject"),
        ("deny", "s3:PutObject"),
        ("allow", "s3:DeleteObject"),
        ("allow", "s3:PutObject"),
    ]


class BrokenDisk(disk.Disk):
    def write(self, descriptor, data):
        raise PermissionError("the folder is not ours")


def test_log_that_cannot_be_written_for_another_reason_says_which(tmp_path):
    log = make(tmp_path, disk=BrokenDisk())

    async def live():
        await log.start()
        log.record(ROOT, WRITE, ALLOWED)
        await log._write_waiting()
        with pytest.raises(errors.AuditUnavailable, match="the folder is not ours"):
            log.record(ROOT, WRITE, ALLOWED)
        await log.stop()

    run(live())


def test_writer_recovers_when_a_refused_write_wakes_it(tmp_path):
    full = FullDisk()
    log = make(tmp_path, disk=full)

    async def live():
        await log.start()
        log.record(ROOT, WRITE, ALLOWED)
        await log._write_waiting()
        full.full = False
        async with asyncio.timeout(60):
            while True:
                try:
                    log.record(ROOT, WRITE, ALLOWED)
                    break
                except storage_errors.DiskFull:
                    await asyncio.sleep(0.01)
        await log.stop()

    run(live())
    assert len(lines(tmp_path)) == 2


def test_writer_recovers_without_any_request(tmp_path, monkeypatch):
    monkeypatch.setattr(audit, "RETRY_SECONDS", 0.01)
    full = FullDisk()
    log = make(tmp_path, disk=full)

    async def live():
        await log.start()
        log.record(ROOT, WRITE, ALLOWED)
        await log._write_waiting()
        assert log.is_stuck
        full.full = False
        async with asyncio.timeout(60):
            while log.is_stuck:  # noqa: ASYNC110 - the log offers no event
                await asyncio.sleep(0.01)
        await log.stop()

    run(live())
    assert len(lines(tmp_path)) == 1


def test_a_denial_in_another_thread_wakes_the_writer(tmp_path):
    log = make(tmp_path)

    async def live():
        await log.start()
        await asyncio.sleep(0.3)  # the writer waits
        asyncio.get_running_loop().set_debug(True)  # refuses what is not safe in threads
        await asyncio.to_thread(log.record, ROOT, WRITE, DENIED)
        await waits.until(lambda: bool(lines(tmp_path)))
        await log.stop()

    run(live())
    assert [line["event"] for line in lines(tmp_path)] == ["deny"]


def test_a_key_that_is_not_text_does_not_end_the_log(tmp_path):
    log = make(tmp_path)
    odd = model.Demand(action="s3:GetObject", resource="arn:aws:s3:::b/\udcff", place="b/\udcff")

    async def live():
        await log.start()
        log.record(ROOT, odd, DENIED)
        await log._write_waiting()
        log.record(ROOT, WRITE, ALLOWED)
        await log.stop()

    run(live())
    assert [line["place"] for line in lines(tmp_path)] == ["b/\\udcff", "b/k"]


def test_lines_that_wait_are_bounded_and_a_gap_says_how_many_are_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "AUDIT_WAITING_MAX", 3)
    log = make(tmp_path)

    def act():
        for _ in range(5):
            log.record(ROOT, WRITE, DENIED)

    during(log, act)
    assert [line["event"] for line in lines(tmp_path)] == ["deny"] * 3 + ["lost"]
    assert lines(tmp_path)[-1]["lines"] == 2


def test_requests_served_side_by_side_keep_their_own_names(tmp_path):
    log = make(tmp_path)

    async def serve(name):
        log.begin(name, "s3")
        await asyncio.sleep(0)
        log.record(ROOT, model.Demand(action="s3:PutObject", resource=name), ALLOWED)

    async def live():
        await log.start()
        await asyncio.gather(*(serve(f"r{number}") for number in range(20)))
        await log.stop()

    run(live())
    assert len(lines(tmp_path)) == 20
    assert all(line["request_id"] == line["resource"] for line in lines(tmp_path))


ANONYMOUS = model.anonymous()


@pytest.mark.parametrize("text", ["\0", "k", "\u20ac", '"', "\udcff", "\U0001f600"])
def test_a_record_is_bounded_and_says_that_it_was_cut(tmp_path, text):
    log = make(tmp_path)
    long = text * 16_000
    demand = model.Demand(action="s3:PutObject", resource=f"arn:aws:s3:::{long}", place=long)
    demand = msgspec.structs.replace(demand, referenced_by=long)
    denied = model.Decision(allow=False, reason="explicit-deny", statements=(long,) * 20)

    def act():
        entry = log.begin("r1", "s3")
        entry.credential_id = long
        log.record(ROOT, demand, denied)

    during(log, act)
    (path,) = (tmp_path / "audit").iterdir()
    assert len(path.read_bytes()) <= 2048 + 1
    (line,) = lines(tmp_path)
    assert line["resource"].startswith("arn:aws:s3:::")
    assert line["action"] == "s3:PutObject"
    assert line["principal"] == ROOT.arn


def test_what_anonymous_clients_do_removes_no_line_about_others(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "AUDIT_ANONYMOUS_FILE_BYTES_MAX", 1)
    monkeypatch.setattr(limits, "AUDIT_ANONYMOUS_FILES_MAX", 2)
    log = make(tmp_path)

    async def live():
        await log.start()
        log.record_outcome(log.begin("r0", "s3"), 200, duration_ns=0)
        log.record(ROOT, WRITE, ALLOWED)
        for number in range(20):
            entry = log.begin(f"r{number}", "s3")
            log.record(ANONYMOUS, WRITE, DENIED)
            log.record_refusal(entry, "SignatureDoesNotMatch", client_ip="10.0.0.1")
            log.record_outcome(entry, 403, duration_ns=0)
            await log._write_waiting()
        await log.stop()

    run(live())
    assert [line["event"] for line in files(tmp_path, "audit")] == ["outcome", "allow"]
    assert len(list((tmp_path / "audit").glob("anonymous-*"))) == 2
    assert {line["event"] for line in files(tmp_path, "anonymous")} == {
        "deny",
        "refuse",
        "outcome",
    }


def test_beyond_their_rate_lines_about_anonymous_clients_are_counted_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "AUDIT_ANONYMOUS_BURST", 3)
    monkeypatch.setattr(limits, "AUDIT_ANONYMOUS_LINES_PER_SECOND", 10)
    clock = requesting.Clock()
    log = audit.Audit(folder=tmp_path / "audit", disk=disk.Disk(), now_ms=clock)

    def act():
        for _ in range(10):
            log.record(ANONYMOUS, WRITE, DENIED)
        clock.now_ms += 200
        for _ in range(5):
            log.record(ANONYMOUS, WRITE, DENIED)
        log.record(ROOT, WRITE, DENIED)

    during(log, act)
    assert [line["event"] for line in files(tmp_path, "anonymous")] == ["deny"] * 5 + ["lost"]
    assert files(tmp_path, "anonymous")[-1]["lines"] == 10
    assert len(files(tmp_path, "audit")) == 1


def test_retries_on_a_full_disk_leave_no_empty_files_and_remove_no_full_ones(tmp_path):
    full = FullDisk()
    full.full = False
    log = make(tmp_path, disk=full)

    async def live():
        await log.start()
        log.record(ROOT, WRITE, ALLOWED)
        await log._write_waiting()
        full.full = True
        log.record(ROOT, DELETE, ALLOWED)
        for _ in range(20):
            await log._write_waiting()
        names = sorted(path.name for path in (tmp_path / "audit").iterdir())
        assert names == ["audit-0000000001.jsonl"]
        full.full = False
        await log.stop()

    run(live())
    assert [line["action"] for line in lines(tmp_path)] == ["s3:PutObject", "s3:DeleteObject"]


def test_denials_are_counted_by_principal_and_allowed_actions_are_not(tmp_path):
    log = make(tmp_path)
    named = dataclasses.replace(ROOT, arn='arn:aws:iam::1:user/a"\\b')

    def act():
        log.record(ROOT, WRITE, ALLOWED)
        log.record(ROOT, DELETE, DENIED)
        log.record(ROOT, WRITE, DENIED)
        log.record(named, WRITE, DENIED)

    during(log, act)
    assert [line for line in log.format_metrics() if not line.startswith("#")] == [
        'boathouse_denials_total{principal="arn:aws:iam::000000000000:root"} 2',
        r'boathouse_denials_total{principal="arn:aws:iam::1:user/a\"\\b"} 1',
    ]


def test_denials_of_many_principals_are_counted_in_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "AUDIT_DENIALS_MAX", 2)
    log = make(tmp_path)

    def act():
        for name in ("a", "b", "c", "d", "a"):
            log.record(dataclasses.replace(ROOT, arn=name), WRITE, DENIED)

    during(log, act)
    assert [line for line in log.format_metrics() if not line.startswith("#")] == [
        'boathouse_denials_total{principal="a"} 2',
        'boathouse_denials_total{principal="b"} 1',
        'boathouse_denials_total{principal="others"} 2',
    ]


def test_a_denial_while_denials_are_listed_does_not_end_the_list(tmp_path):
    log = make(tmp_path)

    def act():
        log.record(dataclasses.replace(ROOT, arn="a"), WRITE, DENIED)
        log.record(dataclasses.replace(ROOT, arn="b"), WRITE, DENIED)
        listed = log.denials()
        first = next(listed)
        # In a server it is the writer thread that denies meanwhile.
        log.record(dataclasses.replace(ROOT, arn="c"), WRITE, DENIED)
        assert [first[0], *(name for name, _, _ in listed)] == ["a", "b"]

    during(log, act)
