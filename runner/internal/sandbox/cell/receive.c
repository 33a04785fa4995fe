/* The control socket. Its other end is the runner: what comes is believed, but an oddity ends the cell. */
#include "cell.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FD_CONTROL = 0 };

static void take_descriptors(struct message *message, struct msghdr *header)
{
	struct cmsghdr *control = CMSG_FIRSTHDR(header);

	message->count = 0;
	if (!control)
		return;
	if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
		give_up("control message");
	message->count = (int)((control->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(message->fds, CMSG_DATA(control), (size_t)message->count * sizeof(int));
}

int receive(struct message *message)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof message->fds)];
	struct iovec part = {message->text, MESSAGE_MAX};
	struct msghdr header = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control,
	};
	ssize_t length = recvmsg(FD_CONTROL, &header, MSG_CMSG_CLOEXEC);

	if (length <= 0)
		return 0;
	if (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		give_up("long message");
	message->length = (size_t)length;
	message->text[length] = 0;
	take_descriptors(message, &header);
	return 1;
}

char *next_text(const char *text)
{
	return (char *)text + strlen(text) + 1;
}

void acknowledge(char kind)
{
	if (send(FD_CONTROL, &kind, 1, MSG_NOSIGNAL) != 1)
		give_up("answer");
}

void close_all(struct message *message)
{
	for (int i = 0; i < message->count; i++)
		close(message->fds[i]);
	message->count = 0;
}
