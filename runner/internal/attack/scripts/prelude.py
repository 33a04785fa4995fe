# The attacker's tools. An attack is a function: it returns what it got, or raises. Everything that it may aim at was
# made for it and is in `at`: nothing else on the host is ever a target.
import ctypes, errno, fcntl, json, mmap, os, resource, signal, socket, struct, sys, time

at = json.loads(sys.argv[2])
call = at["calls"]  # numbers of system calls on this architecture
other, runner = at["other_pid"], os.getppid()
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(name, *arguments):
    """Makes the call; raises OSError as the os module does."""
    words = [a if isinstance(a, (bytes, ctypes.Array)) else ctypes.c_long(a) for a in arguments]
    result = libc.syscall(ctypes.c_long(call[name]), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def reach(name, *arguments):
    """For calls that no script needs: any answer but a refusal shows that the kernel's code was reached."""
    try:
        return f"{name} answered {syscall(name, *arguments)}"
    except OSError as e:
        if e.errno in (errno.EPERM, errno.ENOSYS, errno.EACCES):
            raise
        return f"{name} was reached ({errno.errorcode[e.errno]})"


def read(path):
    with open(path, "rb", buffering=0) as f:
        return f.read(200).decode("ascii", "replace")


def expect(text, secret="secret"):
    """Only the planted text counts: an empty answer is no success."""
    if at[secret] not in text:
        raise LookupError("read something, and not what was planted")
    return "read what was planted"


def main(functions):
    answer = {"got": None, "seen": ""}
    try:
        answer["got"] = str(functions[sys.argv[1]]() or "done")
    except OSError as e:
        answer["seen"] = errno.errorcode.get(e.errno, str(e))
    except MemoryError:
        answer["seen"] = "MemoryError"
    except LookupError as e:
        answer["seen"] = str(e)
    print(json.dumps(answer))
