/* Which addresses others are told, in a network of the test's own. */
#include "check.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interfaces.h"
#include "base/status.h"

/* Alike in all cases. `no0` has no carrier, `off0` is not up. */
static const char network[] =
    "exec 2>/dev/null; ip link set lo up && "
    "ip link add e0 type veth peer name e0x && ip link add ib0 type veth peer name ib0x && "
    "ip link add no0 type veth peer name no0x && ip link add off0 type veth peer name off0x && "
    "ip addr add 172.17.0.1/16 dev no0 && ip addr add 10.1.0.1/24 dev e0 && "
    "ip addr add 10.2.0.1/24 dev ib0 && ip addr add 10.2.0.9/24 dev ib0 && "
    "ip addr add 169.254.7.7/16 dev e0 && ip addr add 10.3.0.1/24 dev off0 && "
    "ip -6 addr add fd77::1/64 dev e0 nodad && "
    "ip link set no0 up && "
    "for name in e0 e0x ib0 ib0x; do ip link set $name up || exit 1; done; "
    /* The system says a moment later that they run. */
    "for name in e0 ib0; do for i in $(seq 500); do "
    "ip link show $name | grep -q 'state UP' && break; sleep 0.01; done; done";

static const struct interfaces_case {
    const char *name;
    const char *more;   /* shell, after `network` */
    const char *wanted; /* PLAIT_INTERFACE */
    const char *list;   /* the addresses, or the sentence's beginning if `status` is a failure */
    plait_status status;
} cases[] = {
    { "loopback, link-local and what is down are left out", "", NULL,
      "10.1.0.1 10.2.0.1 10.2.0.9 fd77::1 172.17.0.1", PLAIT_OK },
    { "the default route goes first", "ip route add default via 10.2.0.2 dev ib0", NULL,
      "10.2.0.1 10.1.0.1 10.2.0.9 fd77::1 172.17.0.1", PLAIT_OK },
    { "a name", "", "ib0", "10.2.0.1 10.2.0.9", PLAIT_OK },
    { "a name of both families", "", "e0", "10.1.0.1 fd77::1", PLAIT_OK },
    { "a beginning", "", "ib*", "10.2.0.1 10.2.0.9", PLAIT_OK },
    { "an address", "", "10.2.0.9", "10.2.0.9", PLAIT_OK },
    { "an IPv6 address", "", "fd77::1", "fd77::1", PLAIT_OK },
    { "a subnet", "", "10.2.0.0/24", "10.2.0.1 10.2.0.9", PLAIT_OK },
    { "a subnet of odd bits", "", "10.2.0.8/29", "10.2.0.9", PLAIT_OK },
    { "an IPv6 subnet", "", "fd00::/8", "fd77::1", PLAIT_OK },
    { "all but one", "", "0.0.0.0/0,!lo", "10.1.0.1 10.2.0.1 10.2.0.9 172.17.0.1", PLAIT_OK },
    { "a list gives the order", "", "ib0,e0", "10.2.0.1 10.2.0.9 10.1.0.1 fd77::1", PLAIT_OK },
    { "what is excluded", "", "!no0,!ib*,!lo", "10.1.0.1 fd77::1", PLAIT_OK },
    { "loopback if it is asked for", "", "lo", "127.0.0.1 ::1", PLAIT_OK },
    { "a name that is not here", "", "eth7",
      "PLAIT_INTERFACE is 'eth7', which is not here; there are: lo 127.0.0.1", PLAIT_INVALID_SETTING },
    { "a name that is down", "", "off0", "PLAIT_INTERFACE is 'off0', which is not here",
      PLAIT_INVALID_SETTING },
    { "a subnet too long", "", "10.2.0.0/33", "PLAIT_INTERFACE is '10.2.0.0/33'", PLAIT_INVALID_SETTING },
    { "nothing left", "", "!*", "PLAIT_INTERFACE is '!*'", PLAIT_INVALID_SETTING },
    { "loopback if there is nothing else", "ip link set e0 down; ip link set ib0 down; ip link set no0 down",
      NULL, "127.0.0.1 ::1", PLAIT_OK },
    { "IPv6 only", "for name in e0 ib0 no0; do ip -4 addr flush dev $name; done", NULL, "fd77::1", PLAIT_OK },
    { "only link-local",
      "for name in e0 ib0 no0; do ip addr flush dev $name; done; ip addr add 169.254.7.7/16 dev e0", NULL,
      "127.0.0.1 ::1", PLAIT_OK },
    { "nothing at all", "for name in e0 ib0 no0 lo; do ip link set $name down; done", NULL,
      "no network interface of this host is up", PLAIT_SYSTEM_ERROR },
};

enum { NO_NETWORK = 77 };

/* In a child with a network of its own: 0, NO_NETWORK, or 1 with a line on stderr. */
static int look(const struct interfaces_case *try)
{
    struct interface_address list[8];
    char said[1024] = "", command[300];
    size_t used = 0;
    int count = 0;
    snprintf(command, sizeof command, "%s", try->more);
    if (unshare(CLONE_NEWNET) != 0 || system(network) != 0)
        return NO_NETWORK;
    if (command[0] != '\0' && system(command) != 0)
        return NO_NETWORK;
    plait_status status = interfaces_list(try->wanted, list, (int)LENGTH(list), &count);
    if (status != PLAIT_OK)
        snprintf(said, sizeof said, "%s", failure_text());
    for (int i = 0; i < count && status == PLAIT_OK; i++)
        used += (size_t)snprintf(said + used, sizeof said - used, "%s%s", i > 0 ? " " : "", list[i].text);
    size_t compared = status == PLAIT_OK ? sizeof said : strlen(try->list);
    if (status == try->status && strncmp(said, try->list, compared) == 0)
        return 0;
    fprintf(stderr, "%s: got \"%s\", wanted \"%s\"\n", try->name, said, try->list);
    return 1;
}

static void addresses_are_chosen(void **state)
{
    const struct interfaces_case *try = *state;
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(look(try));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_NETWORK)
        skip();
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    struct CMUnitTest tests[LENGTH(cases)];
    for (size_t i = 0; i < LENGTH(cases); i++)
        tests[i] = (struct CMUnitTest){ .name = cases[i].name,
                                        .test_func = addresses_are_chosen,
                                        .initial_state = (void *)(uintptr_t)&cases[i] };
    return check_run("interfaces", tests, LENGTH(tests));
}
