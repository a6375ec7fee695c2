#include "hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The last one is the switch. */
static pid_t holders[HOSTS_MOST + 1];
static int hosts;

/* A process with a network of its own that lives until it is killed, or this one ends. */
static pid_t hold(void)
{
    int ready[2];
    char byte = 0;
    if (pipe(ready) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        byte = unshare(CLONE_NEWNET) == 0;
        if (write(ready[1], &byte, 1) != 1 || !byte)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    bool good = pid > 0 && read(ready[0], &byte, 1) == 1 && byte;
    close(ready[0]);
    if (good)
        return pid;
    if (pid > 0)
        waitpid(pid, NULL, 0);
    return -1;
}

static bool enter(pid_t holder)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)holder);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool good = fd >= 0 && setns(fd, CLONE_NEWNET) == 0;
    if (fd >= 0)
        close(fd);
    return good;
}

bool hosts_enter(int host)
{
    return host >= 0 && host < hosts && enter(holders[host]);
}

/* Runs a shell's command in a holder's network. */
static bool run_in(pid_t holder, const char *command)
{
    int status = 1;
    pid_t pid = fork();
    if (pid == 0) {
        if (!enter(holder))
            _exit(1);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(1);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool join_switch(int host)
{
    char command[400];
    snprintf(command, sizeof command,
             "exec 2>/dev/null; ip link add name p%d type veth peer name eth0 netns %d && "
             "ip link set p%d master sw0 up",
             host, (int)holders[host], host);
    if (!run_in(holders[hosts], command))
        return false;
    snprintf(command, sizeof command,
             "exec 2>/dev/null; ip addr add 10.77.0.%d/24 dev eth0 && ip link set lo up && "
             "ip link set eth0 up",
             host + 1);
    return run_in(holders[host], command);
}

bool hosts_up(int count, const char **reason)
{
    hosts = count;
    for (int i = 0; i <= count; i++)
        holders[i] = 0;
    for (int i = 0; i <= count; i++) {
        holders[i] = hold();
        if (holders[i] < 0) {
            *reason = "no network namespaces can be made (that needs root)";
            hosts_down();
            return false;
        }
    }
    bool good =
        run_in(holders[count], "exec 2>/dev/null; ip link add name sw0 type bridge && ip link set sw0 up");
    for (int i = 0; i < count && good; i++)
        good = join_switch(i);
    if (!good) {
        *reason = "`ip` makes no bridge or no veth pair here";
        hosts_down();
    }
    return good;
}

void hosts_down(void)
{
    for (int i = 0; i <= hosts; i++) {
        if (holders[i] <= 0)
            continue;
        kill(holders[i], SIGKILL);
        waitpid(holders[i], NULL, 0);
        holders[i] = 0;
    }
    hosts = 0;
}
