def tcp_connect():
    socket.create_connection(("127.0.0.1", at["tcp_port"]), 5).close()

def tcp_listen():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen()

def udp_send():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", at["udp_port"]))

def udp_listen():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(("127.0.0.1", 0))

def inet6():
    socket.socket(socket.AF_INET6).close()

def interfaces():
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
    s.bind((0, 0))

def named_socket():
    socket.socket(socket.AF_UNIX).connect(at["socket"])

def abstract_socket():
    socket.socket(socket.AF_UNIX).connect("\0" + at["abstract"])

def datagram_pair():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    a.sendto(b"x", at["datagram"])

def foreign_family():
    # Families with a history; whichever the kernel knows.
    for family in (38, 40, 16, 17, 21, 30):  # ALG, VSOCK, NETLINK, PACKET, RDS, TIPC
        try:
            socket.socket(family, socket.SOCK_RAW if family in (16, 17) else socket.SOCK_SEQPACKET).close()
            return f"family {family}"
        except OSError as e:
            seen = e
    raise seen

def ring():
    return reach("io_uring_setup", 4, bytes(120))
