def performance_events():
    # A clock of its own, without the kernel's part: what perf_event_paranoid lets anybody have up to level 2.
    return reach("perf_event_open", struct.pack("IIQQQQQ", 1, 112, 0, 0, 0, 0, 0x60) + bytes(64), 0, -1, -1, 0)

def user_faults():
    return reach("userfaultfd", 1)

def user_namespace():
    return reach("unshare", 0x10000000)

def clone_namespace():
    if syscall("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        os._exit(0)
    os.wait()

def clone3():
    return reach("clone3", bytes(64), 8)

def keyrings():
    return reach("keyctl", 0, -3, 1)

def trace_me():
    return reach("ptrace", 0, 0, 0, 0)

def execute_memory():
    return reach("execveat", -1, b"", 0, 0, 0x1000)

def own_filter():
    return reach("seccomp", 1, 0, 0)

def own_ruleset():
    return reach("landlock_create_ruleset", 0, 0, 1)

def personality():
    return reach("personality", 0x0040000)

def splice():
    return reach("vmsplice", -1, 0, 0, 0)

def foreign_gate():
    # getpid by the 32-bit gate.
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex("b814000000cd80c3"))
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()

def foreign_number():
    # getpid with the bit of the x32 table: an answer at all, even "no such call", is one from the kernel.
    libc.syscall(ctypes.c_long(0x40000000 + call["getpid"]))
    return "the process lives"
