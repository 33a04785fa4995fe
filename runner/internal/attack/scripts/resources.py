def memory():
    return len(bytearray(96 << 20))

def shared_memory():
    m = mmap.mmap(-1, 96 << 20)
    for i in range(0, 96 << 20, 4096):
        m[i] = 1
    return len(m)

def memory_bit_by_bit():
    kept = []
    for _ in range(96):
        kept.append(bytearray(1 << 20))
    return len(kept)

def children(count, work):
    born = []
    for _ in range(count):
        pid = os.fork()
        if pid == 0:
            work()
            time.sleep(1.5)
            os._exit(0)
        born.append(pid)
    for pid in born:
        os.waitpid(pid, 0)
    return f"{count} children"

def memory_of_many():
    return children(4, lambda: globals().update(kept=bytearray(30 << 20)))

def shared_memory_of_many():
    def work():
        globals()["kept"] = m = mmap.mmap(-1, 30 << 20)
        m.write(bytes([1]) * (30 << 20))
    return children(4, work)

def processes():
    return children(24, lambda: None)

def processes_leaving():
    return children(24, os.setsid)

def burn(seconds):
    while time.process_time() < seconds:
        pass

def cpu():
    burn(2.2)
    return "2.2 s"

def cpu_of_many():
    def work():
        burn(.9)
        os._exit(0)
    return children(4, work)

def large_file():
    with open("large", "wb", buffering=0) as f:
        while f.tell() < 3 << 20:
            f.write(bytes(1 << 20))
    return f"{os.stat('large').st_size} bytes"

def sparse_file():
    with open("sparse", "wb") as f:
        f.truncate(1 << 30)

def reserved_file():
    with open("reserved", "wb") as f:
        os.posix_fallocate(f.fileno(), 0, 8 << 20)

def many_files():
    for i in range(6):
        with open(f"f{i}", "wb") as f:
            f.write(bytes(1 << 20))
    time.sleep(1)

def many_names():
    for i in range(600):
        open(f"f{i}", "w").close()
    time.sleep(1)

def deep_folders():
    for _ in range(120):
        os.mkdir("d")
        os.chdir("d")
    time.sleep(1)

def removed_files():
    kept = []
    for _ in range(6):
        f = open("f", "wb", buffering=0)
        f.write(bytes(1 << 20))
        os.unlink("f")
        kept.append(f)
    time.sleep(1)
    return len(kept)

def open_files():
    return len([os.dup(0) for _ in range(60)])
