def child():
    if os.fork() == 0:
        time.sleep(30)
        os._exit(0)

def session():
    if os.fork() == 0:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        time.sleep(30)
        os._exit(0)

def double_fork():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(30)
        os._exit(0)
    os.wait()

def hopping():
    # Each generation leaves its session, makes the next and ends: there is never a process to be found twice.
    if os.fork() == 0:
        until = time.monotonic() + 3
        while time.monotonic() < until:
            os.setsid()
            if os.fork() > 0:
                os._exit(0)
        os._exit(0)

def late_write():
    # The control's child writes after its parent has ended.
    if os.fork() == 0:
        os.setsid()
        time.sleep(.3)
        os.close(os.open(at["late"], os.O_WRONLY | os.O_CREAT, 0o600))
        os._exit(0)

def stopped_child():
    if os.fork() == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)

def listener():
    if os.fork() == 0:
        s = socket.socket()
        s.bind(("127.0.0.1", at["free_port"]))
        s.listen()
        time.sleep(30)
        os._exit(0)
    time.sleep(.1)
    socket.create_connection(("127.0.0.1", at["free_port"]), 5).close()
