def sleep():
    time.sleep(1.5)

def ignore_signals():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM, signal.SIGXCPU):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(1.5)

def stop():
    # Whoever is stopped spends no time, and no signal of ours but one ends it. The control's clock wakes it.
    if os.fork() == 0:
        time.sleep(1.5)
        os.kill(os.getppid(), signal.SIGCONT)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGSTOP)

def wait_for_child():
    if os.fork() == 0:
        os.setsid()
        time.sleep(1.5)
        os._exit(0)
    os.wait()

def ignore_cpu_signal():
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    while time.process_time() < 2.2:
        pass
