def environment_of_runner():
    return len(read(f"/proc/{runner}/environ"))

def environment_of_other():
    with open(f"/proc/{other}/environ") as f:
        return expect(f.read(), "other_secret")

def arguments_of_other():
    return len(read(f"/proc/{other}/cmdline"))

def folder_of_other():
    return os.listdir(f"/proc/{other}/cwd")

def file_of_other():
    return expect(read(at["other_folder"] + "/secret"), "other_secret")

def write_to_other():
    os.close(os.open(at["other_folder"] + "/planted", os.O_WRONLY | os.O_CREAT, 0o600))

def descriptors_of_other():
    return os.listdir(f"/proc/{other}/fd")

def map_of_other():
    return len(read(f"/proc/{other}/maps"))

def list_processes():
    return len([p for p in os.listdir("/proc") if p.isdigit()])

def init():
    return len(read("/proc/1/status"))

def kernel_settings():
    return read("/proc/sys/kernel/osrelease")

def machine():
    return len(os.listdir("/sys/class"))

def become_root():
    os.setuid(os.getuid())
    return "setuid is answered"

def become_group():
    os.setgid(os.getgid())
    return "setgid is answered"

def undumpable():
    syscall("prctl", 4, 0, 0, 0, 0)
    return "hidden from the watch"
