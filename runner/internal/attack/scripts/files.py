def read_outside():
    return expect(read(at["folder"] + "/secret"))

def write_outside():
    os.write(os.open(at["folder"] + "/written", os.O_WRONLY), b"x")

def create_outside():
    os.close(os.open(at["folder"] + "/new", os.O_WRONLY | os.O_CREAT, 0o600))

def delete_outside():
    os.unlink(at["folder"] + "/deleted")

def move_in():
    os.rename(at["folder"] + "/moved", "moved")

def link_in():
    os.link(at["folder"] + "/secret", "linked")
    return expect(read("linked"))

def symbolic_link():
    os.symlink(at["folder"] + "/secret", "link")
    return expect(read("link"))

def dot_dot():
    return expect(read("../" * 20 + at["folder"].lstrip("/") + "/secret"))

def truncate():
    os.truncate(at["folder"] + "/truncated", 0)

def exchange():
    os.mkdir("mine")
    path = (at["folder"] + "/exchanged").encode()
    syscall("renameat2", -100, b"mine", -100, path, 2)  # RENAME_EXCHANGE

def change_mode():
    os.chmod(at["folder"] + "/mode", 0)
    if os.stat(at["folder"] + "/mode").st_mode & 0o777:
        raise LookupError("answered success and changed nothing")

def change_time():
    os.utime(at["folder"] + "/time", (1, 1))
    if os.stat(at["folder"] + "/time").st_mtime != 1:
        raise LookupError("answered success and changed nothing")

def change_owner():
    os.chown(at["folder"] + "/secret", -1, os.getgid())

def account_file():
    return read("/etc/passwd")[:1]

def list_root():
    seen = set(os.listdir("/")) & {"boot", "home", "mnt", "root", "srv", "var"}  # a jail has a root of its own, without these
    if not seen:
        raise OSError(2, "a root of its own")
    return len(seen)

def list_runs():
    others = set(os.listdir(os.path.dirname(os.getcwd()))) - {os.path.basename(os.getcwd())}
    if not others:
        raise OSError(2, "only its own folder")
    return sorted(others)

def process_root():
    return expect(read("/proc/self/root" + at["folder"] + "/secret"))

def watch_folder():
    fd = syscall("inotify_init1", 0)
    syscall("inotify_add_watch", fd, at["folder"].encode(), 0x100)
    return "told of every name there"

def file_handle():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 256)
    mount = ctypes.create_string_buffer(8)
    syscall("name_to_handle_at", -100, (at["folder"] + "/secret").encode(), handle, mount, 0)

def learn_existence():
    os.stat(at["folder"] + "/secret")
    return "knows that the file is there"
