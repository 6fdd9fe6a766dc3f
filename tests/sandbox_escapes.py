"""What code that has taken over a parser may try: run in the sandbox, as a script of a child.

`lines(job)` tries all of it and says of each attempt with what error it was refused, or `done`. An attempt
does no harm where it is not refused. An error that does not say that it was forbidden counts as `done`: the
way was open. `job` names a directory with secrets, processes, and servers that listen.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import resource
import signal
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Job = Mapping[str, Any]
Attempt = Callable[[Job], object]

FORBIDDEN = {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.ENOTTY}
CLOSED = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}

libc = ctypes.CDLL(None, use_errno=True)


def lines(job: Job) -> Iterator[dict[str, Any]]:
    wanted = {name: ATTEMPTS[name] for name in job.get("attempts", ATTEMPTS)}
    yield {"count": len(wanted)}
    for number, (name, attempt) in enumerate(wanted.items(), 1):
        yield {"page": number, "attempt": name, "outcome": outcome(attempt, job)}


def outcome(attempt: Attempt, job: Job) -> str:
    try:
        attempt(job)
    except sqlite3.OperationalError as error:
        return f"refused: {error}" if error.sqlite_errorcode in CLOSED else f"done, with {error!r}"
    except (OSError, subprocess.SubprocessError) as error:
        number = getattr(error, "errno", None)
        return f"refused: {error}" if number in FORBIDDEN else f"done, with {error!r}"
    except ValueError as error:  # what `resource` makes of EPERM
        return f"refused: {error}" if "not allowed" in str(error) else f"done, with {error!r}"
    return "done"


def secret(job: Job) -> str:
    return os.path.join(job["data"], "secret-key")


def read(path: Callable[[Job], str]) -> Attempt:
    return lambda job: open(path(job), "rb").read(1)


def of_process(whose: str, name: str) -> Attempt:
    return read(lambda job: f"/proc/{job[whose]}/{name}")


def called(name: str, *arguments: Any) -> Attempt:
    """A function of the C library; where it is refused it returns -1."""

    def attempt(job: Job) -> None:
        given = [argument(job) if callable(argument) else argument for argument in arguments]
        if int(getattr(libc, name)(*given)) == -1:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    return attempt


X86_64 = platform.machine() == "x86_64"


def system_call(numbers: tuple[int, int], *arguments: Any) -> Attempt:
    """A system call by its number on x86-64 and ARM."""
    number = numbers[0] if X86_64 else numbers[1]
    return called("syscall", ctypes.c_long(number), *arguments)


def connected(family: int, kind: int, address: Callable[[Job], Any]) -> Attempt:
    def attempt(job: Job) -> None:
        with socket.socket(family, kind) as client:
            client.connect(address(job))

    return attempt


def bound(job: Job) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))


def sent_by_udp(job: Job) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"x", ("127.0.0.1", job["tcp"]))


def opened(family: int, kind: int, protocol: int = 0) -> Attempt:
    return lambda job: socket.socket(family, kind, protocol).close()


def through_a_directory(job: Job) -> None:
    directory = os.open(job["data"], os.O_PATH)
    os.close(os.open("secret-key", os.O_RDONLY, dir_fd=directory))


def through_the_working_directory(job: Job) -> None:
    os.close(os.open(os.path.relpath(secret(job)), os.O_RDONLY))


def through_a_descriptor_of_the_path(job: Job) -> None:
    held = os.open(secret(job), os.O_PATH)
    os.close(os.open(f"/proc/self/fd/{held}", os.O_RDONLY))


def database_read(job: Job) -> None:
    with sqlite3.connect(job["database"]) as database:
        database.execute("SELECT * FROM users").fetchall()


def database_written(job: Job) -> None:
    with sqlite3.connect(job["database"]) as database:
        database.execute("INSERT INTO users VALUES ('mallory')")


def written(mode: str, name: str = "new") -> Attempt:
    return lambda job: open(os.path.join(job["data"], name), mode).close()


def written_and_removed(directory: str) -> Attempt:
    def attempt(job: Job) -> None:
        with open(path := f"{directory}/escaped-{os.getpid()}", "w"):
            os.unlink(path)

    return attempt


def document_truncated(job: Job) -> None:
    with open(job["pdf"], "rb") as document:
        os.ftruncate(document.fileno(), 0)


def document_mapped_to_write(job: Job) -> None:
    with open(job["pdf"], "r+b") as document:
        mmap.mmap(document.fileno(), 0)


def document_locked(job: Job) -> None:
    with open(job["pdf"], "rb") as document:
        fcntl.flock(document, fcntl.LOCK_EX)


def forked(job: Job) -> None:
    if os.fork() == 0:
        os._exit(0)


def status_of_the_shell(job: Job) -> None:
    if os.system("true") != 0:
        raise PermissionError(errno.EPERM, "system() could not start the shell")


def whom_a_descriptor_signals(job: Job) -> None:
    reading, _ = os.pipe()
    fcntl.fcntl(reading, fcntl.F_SETOWN, job["parent"])


def typed_into_the_terminal(job: Job) -> None:
    fcntl.ioctl(0, 0x5412, b"x")


def limits_raised(job: Job) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def limits_of(whose: str) -> Attempt:
    def attempt(job: Job) -> None:
        had = (ctypes.c_uint64 * 2)()
        if libc.prlimit(job[whose], resource.RLIMIT_NOFILE, None, had) == -1:
            raise OSError(ctypes.get_errno(), "prlimit")

    return attempt


def from_another_thread(attempt: Attempt) -> Attempt:
    """What is restricted must be restricted in every thread."""

    def in_a_thread(job: Job) -> None:
        said: list[str] = []
        thread = threading.Thread(target=lambda: said.append(outcome(attempt, job)))
        try:
            thread.start()
        except RuntimeError as error:
            raise PermissionError(errno.EPERM, f"no thread: {error}") from None
        thread.join()
        if said[0].startswith("refused"):
            raise PermissionError(errno.EPERM, said[0])

    return in_a_thread


def signalled(whose: str, sign: int = 1) -> Attempt:
    return lambda job: os.kill(sign * job[whose], 0)


NULL = None

READING: dict[str, Attempt] = {
    "read a secret": read(secret),
    "read a secret in another thread": from_another_thread(read(secret)),
    "read another document": read(lambda job: os.path.join(job["data"], "other.pdf")),
    "list the data directory": lambda job: os.listdir(job["data"]),
    "list the root": lambda job: os.listdir("/"),
    "list the home": lambda job: os.listdir("/root"),
    "list temporary files": lambda job: os.listdir("/tmp"),
    "read a secret by a symbolic link": read(lambda job: os.path.join(job["data"], "link")),
    "read a secret by a relative path": through_the_working_directory,
    "read a secret by its directory": through_a_directory,
    "read a secret by a descriptor of its path": through_a_descriptor_of_the_path,
    "read a secret by /proc/self/root": read(lambda job: f"/proc/self/root{secret(job)}"),
    "read a secret by the parent's root": read(lambda job: f"/proc/{job['parent']}/root{secret(job)}"),
    "read the names of machines": read(lambda job: "/etc/hosts"),
    "read whom to ask for names": read(lambda job: "/etc/resolv.conf"),
    "read the users of the system": read(lambda job: "/etc/passwd"),
    "read the passwords of the system": read(lambda job: "/etc/shadow"),
    "read this machine's name": read(lambda job: "/etc/hostname"),
    "read the database": database_read,
    "read the parent's environment": of_process("parent", "environ"),
    "read the parent's memory": of_process("parent", "mem"),
    "read the parent's map": of_process("parent", "maps"),
    "read the parent's arguments": of_process("parent", "cmdline"),
    "read the parent's status": of_process("parent", "status"),
    "list the parent's descriptors": lambda job: os.listdir(f"/proc/{job['parent']}/fd"),
    "read a file the parent has open": read(lambda job: f"/proc/{job['parent']}/fd/{job['held']}"),
    "read a sibling's environment": of_process("sibling", "environ"),
    "read a sibling's memory": of_process("sibling", "mem"),
    "read the environment of process 1": read(lambda job: "/proc/1/environ"),
    "list the processes": lambda job: os.listdir("/proc"),
    "read the connections": read(lambda job: "/proc/self/net/tcp"),
    "read the mounts": read(lambda job: "/proc/self/mountinfo"),
    "read the control group": read(lambda job: "/proc/self/cgroup"),
    "read the kernel's log": read(lambda job: "/dev/kmsg"),
    "list the shared memory": lambda job: os.listdir("/dev/shm"),
    "open the terminal": read(lambda job: "/dev/tty"),
}

WRITING: dict[str, Attempt] = {
    "write a file": written("w"),
    "write over a file": written("r+", "secret-key"),
    "append to a file": written("a", "secret-key"),
    "create a file": written("x"),
    "create a file without a name": lambda job: os.open(job["data"], os.O_TMPFILE | os.O_WRONLY),
    "write to /tmp": written_and_removed("/tmp"),
    "write to the shared memory": written_and_removed("/dev/shm"),
    "write to /dev/null": lambda job: open("/dev/null", "w").close(),
    "write to its own memory": lambda job: open("/proc/self/mem", "r+b").close(),
    "write its kill order": lambda job: open("/proc/self/oom_score_adj", "w").close(),
    "write to the database": database_written,
    "truncate a file": lambda job: os.truncate(secret(job), 0),
    "truncate the document": lambda job: os.truncate(job["pdf"], 0),
    "truncate the open document": document_truncated,
    "map the document to write": document_mapped_to_write,
    "delete a file": lambda job: os.unlink(os.path.join(job["data"], "other.pdf")),
    "delete the document": lambda job: os.unlink(job["pdf"]),
    "rename a file": lambda job: os.rename(secret(job), secret(job) + "-2"),
    "link a file": lambda job: os.link(secret(job), secret(job) + "-3"),
    "make a symbolic link": lambda job: os.symlink("/etc", os.path.join(job["data"], "etc")),
    "make a directory": lambda job: os.mkdir(os.path.join(job["data"], "d")),
    "delete a directory": lambda job: os.rmdir(os.path.join(job["data"], "empty")),
    "make a pipe with a name": lambda job: os.mkfifo(os.path.join(job["data"], "fifo")),
    "make a device": lambda job: os.mknod(os.path.join(job["data"], "device"), 0o20600, os.makedev(1, 3)),
    "change a mode": lambda job: os.chmod(secret(job), 0o777),
    "change an owner": lambda job: os.chown(secret(job), os.getuid(), os.getgid()),
    "change a time": lambda job: os.utime(secret(job)),
    "set an attribute": lambda job: os.setxattr(secret(job), "user.escaped", b"1"),
    "lock the document": document_locked,
    "change the working directory": lambda job: os.chdir("/"),
    "change the root": lambda job: os.chroot("/"),
    "watch a directory": called("inotify_init1", 0),
}

NETWORK: dict[str, Attempt] = {
    "connect by TCP": connected(socket.AF_INET, socket.SOCK_STREAM, lambda job: ("127.0.0.1", job["tcp"])),
    "connect by TCP in another thread": from_another_thread(
        connected(socket.AF_INET, socket.SOCK_STREAM, lambda job: ("127.0.0.1", job["tcp"]))
    ),
    "listen by TCP": bound,
    "send by UDP": sent_by_udp,
    "connect to a unix socket": connected(socket.AF_UNIX, socket.SOCK_STREAM, lambda job: job["unix"]),
    "connect to an abstract socket": connected(
        socket.AF_UNIX, socket.SOCK_STREAM, lambda job: b"\0" + job["abstract"].encode()
    ),
    "send to a unix socket": connected(socket.AF_UNIX, socket.SOCK_DGRAM, lambda job: job["unix"]),
    "make a pair of sockets": lambda job: socket.socketpair(),
    "open a raw socket": opened(socket.AF_INET, socket.SOCK_RAW, 1),
    "open a packet socket": opened(17, socket.SOCK_RAW),
    "ask the kernel by netlink": opened(16, socket.SOCK_RAW),
    "have the kernel encrypt": opened(38, 5),
    "open a socket to the host": opened(40, socket.SOCK_STREAM),
    "open an event ring": system_call((425, 425), 1, ctypes.create_string_buffer(120)),
}

PROCESSES: dict[str, Attempt] = {
    "fork": forked,
    "fork again and again": lambda job: [forked(job) for _ in range(3)],
    "fork as vfork does": system_call((56, 220), ctypes.c_long(signal.SIGCHLD), NULL, NULL, NULL, NULL),
    "clone": called("syscall", ctypes.c_long(435), ctypes.create_string_buffer(88), ctypes.c_long(88)),
    "execute": lambda job: os.execv("/bin/true", ["true"]),
    "execute in the memory": lambda job: os.execve(os.memfd_create("program"), ["program"], {}),
    "spawn": lambda job: os.posix_spawn("/bin/true", ["true"], {}),
    "run a shell": status_of_the_shell,
    "open a pipe to a shell": lambda job: os.popen("true"),
    "run a program": lambda job: subprocess.run(["/bin/true"], check=True),
    "signal the parent": signalled("parent"),
    "signal a sibling": signalled("sibling"),
    "signal the parent's group": lambda job: os.kill(-os.getpgid(job["parent"]), 0),
    "signal everybody": lambda job: os.kill(-1, 0),
    "signal process 1": lambda job: os.kill(1, 0),
    "signal a thread of the parent": system_call(
        (234, 131), lambda job: job["parent"], lambda job: job["parent"], 0
    ),
    "signal a thread": system_call((200, 130), lambda job: job["parent"], 0),
    "queue a signal": system_call((129, 138), lambda job: job["parent"], 0, NULL),
    "have a pipe signal the parent": whom_a_descriptor_signals,
    "open the parent": system_call((434, 434), lambda job: job["parent"], 0),
    "trace the parent": system_call((101, 117), ctypes.c_long(0x4206), lambda job: job["parent"], NULL, NULL),
    "look at the parent": system_call((101, 117), ctypes.c_long(1), lambda job: job["parent"], NULL, NULL),
    "read the parent's memory by a call": system_call(
        (310, 270), lambda job: job["parent"], NULL, 0, NULL, 0, 0
    ),
    "write the parent's memory by a call": system_call(
        (311, 271), lambda job: job["parent"], NULL, 0, NULL, 0, 0
    ),
    "read the parent's limits": limits_of("parent"),
    "change the parent's priority": lambda job: os.setpriority(os.PRIO_PROCESS, job["parent"], 0),
    "change the parent's processors": lambda job: os.sched_setaffinity(
        job["parent"], os.sched_getaffinity(job["parent"])
    ),
    "change the parent's scheduler": system_call((144, 119), lambda job: job["parent"], 0, NULL),
    "compare with the parent": system_call((312, 272), lambda job: job["parent"], os.getpid(), 0, 0, 0),
    "leave the session": called("setsid"),
    "leave the group": called("setpgid", 0, 0),
    "type into the terminal": typed_into_the_terminal,
}

RIGHTS: dict[str, Attempt] = {
    "gain rights again": called("prctl", 38, 0, 0, 0, 0),
    "be dumpable": called("prctl", 4, 1, 0, 0, 0),
    "set another filter": called("prctl", 22, 2, 0, 0, 0),
    "filter by a call": system_call((317, 277), 0, 0, NULL),
    "restrict itself anew": system_call((444, 444), NULL, ctypes.c_size_t(0), 1),
    "outlive the parent": called("prctl", 1, 0, 0, 0, 0),
    "be a reaper": called("prctl", 36, 1, 0, 0, 0),
    "raise its limits": limits_raised,
    "become another user": lambda job: os.setuid(os.getuid()),
    "become another group": lambda job: os.setgid(os.getgid()),
    "take capabilities": called("capset", (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()),
    "enter a new user namespace": called("unshare", 0x10000000),
    "enter a new mount namespace": called("unshare", 0x20000),
    "enter a namespace of the parent": called("setns", 0, 0),
    "mount": called("mount", b"none", b"/nowhere", b"tmpfs", 0, NULL),
    "unmount": called("umount2", b"/nowhere", 0),
    "change the root for all": system_call((155, 41), b"/nowhere", b"/nowhere"),
    "open a file by its handle": system_call((304, 265), -100, NULL, 0),
    "take the handle of a file": system_call((303, 264), -100, b"/", NULL, NULL, 0),
    "read the keys": system_call((250, 219), 0, ctypes.c_long(-3), 0),
    "add a key": system_call((248, 217), b"user", b"escaped", b"x", 1, ctypes.c_long(-2)),
    "load a program into the kernel": system_call((321, 280), 0, NULL, 0),
    "count events": system_call((298, 241), NULL, 0, -1, -1, 0),
    "handle faults of memory": system_call((323, 282), 0),
    "share memory": called("shmget", 1, 1, 0),
    "share a semaphore": called("semget", 1, 1, 0),
    "share a queue": called("msgget", 1, 0),
    "open a queue of messages": system_call((240, 180), b"escaped", 0, 0, NULL),
    "make a file in memory": lambda job: os.memfd_create("escaped"),
    "make a secret file in memory": system_call((447, 447), 0),
    "change its personality": called("personality", 0x0040000),
    "set the clock": system_call((227, 112), 0, NULL),
    "name the machine": called("sethostname", b"escaped", ctypes.c_size_t(1 << 20)),
    "restart the machine": system_call((169, 142), 0, 0, 0, NULL),
    "load a module": system_call((313, 273), -1, b"", 0),
    "swap": called("swapoff", b"/nowhere"),
    "read the kernel's messages": called("klogctl", 10, NULL, 0),
    "move pages of the parent": system_call((279, 239), lambda job: job["parent"], 0, NULL, NULL, NULL, 0),
    "splice": called("splice", 0, NULL, 1, NULL, 0, 0),
    "open with conditions": system_call((437, 437), -100, b"/etc/passwd", (ctypes.c_uint64 * 3)(), 24),
}  # fmt: skip

ATTEMPTS: dict[str, Attempt] = READING | WRITING | NETWORK | PROCESSES | RIGHTS
