def flood():
    for _ in range(40):
        os.write(1, b" " * 4096)

def one_line():
    sys.stdout.write(" " * 200_000)
    sys.stdout.flush()

def one_byte_more():
    os.write(1, b" " * at["stdout_limit"])

def flood_by_child():
    if os.fork() == 0:
        for _ in range(40):
            os.write(1, b" " * 4096)
        os._exit(0)
    os.wait()
