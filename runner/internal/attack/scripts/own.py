def connect():
    socket.socket(socket.AF_UNIX).connect(at["socket"])

def remove_socket():
    os.unlink(at["spare_socket"])

def close_socket_to_others():
    os.chmod(at["socket"], 0)
    if os.stat(at["socket"]).st_mode & 0o777:
        raise LookupError("answered success and changed nothing")

def change_shim():
    os.close(os.open(at["own"] + "/shim", os.O_WRONLY))

def read_manifest():
    return expect(read(at["own"] + "/manifest.json"))

def change_manifest():
    os.write(os.open(at["own"] + "/manifest.json", os.O_WRONLY | os.O_TRUNC), b"{}")

def lease():
    # Holds up whoever opens the file next, for 45 s. Reading is allowed: it is the run's own skill.
    fcntl.fcntl(os.open(at["skill"] + "/run.py", os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK)

def read_other_skill():
    return expect(read(at["own"] + "/other-skill.py"))

def memory_of_runner():
    os.close(os.open(f"/proc/{runner}/mem", os.O_RDWR))

def descriptors_of_runner():
    return os.listdir(f"/proc/{runner}/fd")

def limit_runner():
    soft, hard = resource.prlimit(runner, resource.RLIMIT_CORE)
    resource.prlimit(runner, resource.RLIMIT_CORE, (soft, hard))

def trace_runner():
    syscall("ptrace", 0x4206, runner, 0, 0)

def working_folder_away():
    os.rename(os.getcwd(), os.path.dirname(os.getcwd()) + "/" + at["name"])
