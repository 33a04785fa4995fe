def signal_runner():
    os.kill(runner, 0)

def signal_other():
    os.kill(other, signal.SIGUSR1)

def signal_group_of_other():
    os.killpg(other, signal.SIGUSR1)

def signal_all():
    # SIGURG does no harm to anybody; the other run tells when it gets it.
    os.kill(-1, signal.SIGURG)

def signal_thread():
    syscall("tkill", other, signal.SIGUSR1)

def signal_thread_of_group():
    syscall("tgkill", other, other, signal.SIGUSR1)

def queue_signal():
    syscall("rt_sigqueueinfo", other, signal.SIGUSR1, struct.pack("iii", signal.SIGUSR1, 0, -1) + bytes(116))

def queue_signal_to_thread():
    syscall("rt_tgsigqueueinfo", other, other, signal.SIGUSR1, struct.pack("iii", signal.SIGUSR1, 0, -1) + bytes(116))

def signal_by_handle():
    fd = syscall("pidfd_open", other, 0)
    syscall("pidfd_send_signal", fd, signal.SIGUSR1, 0, 0)

def signal_by_socket():
    a, b = socket.socketpair()
    fcntl.ioctl(a, 0x8901, struct.pack("i", other))  # FIOSETOWN
    fcntl.fcntl(a, fcntl.F_SETFL, fcntl.fcntl(a, fcntl.F_GETFL) | os.O_ASYNC)
    b.send(b"x")

def signal_by_file_owner():
    a, b = os.pipe()
    fcntl.fcntl(a, fcntl.F_SETOWN, other)
    fcntl.fcntl(a, fcntl.F_SETFL, fcntl.fcntl(a, fcntl.F_GETFL) | os.O_ASYNC)
    os.write(b, b"x")

def signal_from_child():
    if os.fork() == 0:
        os.setsid()
        try:
            os.kill(other, signal.SIGUSR1)
        except OSError as e:
            os._exit(e.errno)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.wait()[1])
    if code:
        raise OSError(code, "")

def limit_other():
    resource.prlimit(other, resource.RLIMIT_NOFILE, (33, 33))

def pin_other():
    os.sched_setaffinity(other, {min(os.sched_getaffinity(0))})

def slow_other():
    os.setpriority(os.PRIO_PROCESS, other, 19)

def schedule_other():
    os.sched_setscheduler(other, os.SCHED_IDLE, os.sched_param(0))

def starve_other_of_disk():
    syscall("ioprio_set", 1, other, 3 << 13)

def trace_other():
    syscall("ptrace", 0x4206, other, 0, 0)

def open_memory_of_other():
    os.close(os.open(f"/proc/{other}/mem", os.O_RDWR))

def copy_memory_of_other():
    there = ctypes.create_string_buffer(8)
    vector = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(there), 8))
    return reach("process_vm_readv", other, vector, 1, vector, 1, 0)

def compare_with_other():
    return reach("kcmp", os.getpid(), other, 2, 0, 0)

def steal_descriptor():
    fd = syscall("pidfd_open", other, 0)
    return reach("pidfd_getfd", fd, 0, 0)

def fork_undeclared():
    if os.fork() == 0:
        os._exit(0)
    os.wait()

def spawn_undeclared():
    os.waitpid(os.posix_spawn(sys.executable or "/usr/bin/python3", ["true", "-c", ""], {}), 0)

def outlive_runner():
    syscall("prctl", 1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG
