def shared_memory_file():
    os.close(os.open("/dev/shm/" + at["name"], os.O_RDWR | os.O_CREAT, 0o600))

def temporary_file():
    os.close(os.open("/tmp/" + at["name"], os.O_RDWR | os.O_CREAT, 0o600))

def other_temporary_file():
    os.close(os.open("/var/tmp/" + at["name"], os.O_RDWR | os.O_CREAT, 0o600))

def sysv_shared_memory():
    syscall("shmget", at["key"], 4096, 0o1600)

def sysv_semaphore():
    syscall("semget", at["key"], 1, 0o1600)

def sysv_queue():
    syscall("msgget", at["key"], 0o1600)

def posix_queue():
    syscall("mq_open", at["name"].encode(), 0o102, 0o600, 0)

def anonymous_file():
    os.close(os.memfd_create("x"))

def keyring():
    return reach("add_key", b"user", at["name"].encode(), b"left", 4, -3)

def abstract_listener():
    s = socket.socket(socket.AF_UNIX)
    s.bind("\0" + at["name"])

def lock_of_other():
    fd = os.open(at["folder"] + "/secret", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)

def large_pipe():
    # The kernel counts the size of pipes for each user: what one run takes another lacks.
    a, b = os.pipe()
    fcntl.fcntl(b, 1031, 1 << 20)  # F_SETPIPE_SZ
