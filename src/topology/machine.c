#include "topology/machine.h"

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first line of a small file, without its end; false if it can't be read. */
static int read_line(const char *path, char *line, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t length = read(fd, line, size - 1);
    close(fd);
    if (length <= 0)
        return 0;
    line[length] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return 1;
}

static void look_at_affinity(uint64_t cores[MACHINE_CORE_WORDS])
{
    cpu_set_t set;
    _Static_assert(CPU_SETSIZE == 64 * MACHINE_CORE_WORDS, "a set's bits fit the words");
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return; /* more than 1024 processors: unknown */
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &set))
            cores[core / 64] |= UINT64_C(1) << core % 64;
}

int machine_core_count(const uint64_t cores[MACHINE_CORE_WORDS], int quota)
{
    int count = 0;
    for (int word = 0; word < MACHINE_CORE_WORDS; word++)
        count += __builtin_popcountll(cores[word]);
    if (count == 0) {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        count = online > 0 ? (int)online : 1;
    }
    return quota > 0 && quota < count ? quota : count;
}

/* Cores that the cgroup's quota is worth, rounded up; 0 for no limit. Inside a
 * container the own cgroup is mounted at the root (v2: cpu.max, v1: cpu.cfs_*). */
static int cores_by_quota(void)
{
    char line[128];
    double quota = 0, period = 0;
    if (read_line("/sys/fs/cgroup/cpu.max", line, sizeof line)) {
        if (sscanf(line, "%lf %lf", &quota, &period) != 2)
            return 0; /* "max" */
    } else if (read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", line, sizeof line)) {
        quota = atof(line);
        if (read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", line, sizeof line))
            period = atof(line);
    }
    return quota > 0 && period > 0 ? (int)ceil(quota / period) : 0;
}

static void identify_host(struct machine *machine)
{
    char boot[64] = "unknown", pid_space[40] = "?", net_space[40] = "?";
    read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    ssize_t length = readlink("/proc/self/ns/pid", pid_space, sizeof pid_space - 1);
    if (length > 0)
        pid_space[length] = '\0';
    length = readlink("/proc/self/ns/net", net_space, sizeof net_space - 1);
    if (length > 0)
        net_space[length] = '\0';

    /* "pid:[4026531836]": the number is what tells. */
    const char *pid_number = strchr(pid_space, '['), *net_number = strchr(net_space, '[');
    snprintf(machine->host_id, sizeof machine->host_id, "%.40s/%.16s/%.16s", boot,
             pid_number != NULL ? pid_number : "?", net_number != NULL ? net_number : "?");
    if (gethostname(machine->host_name, sizeof machine->host_name) != 0)
        snprintf(machine->host_name, sizeof machine->host_name, "unknown");
    machine->host_name[sizeof machine->host_name - 1] = '\0';
}

struct machine machine_look(void)
{
    struct machine machine = { .quota = cores_by_quota() };
    look_at_affinity(machine.cores);
    long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    machine.l2_bytes = l2 > 0 ? (size_t)l2 : (size_t)1 << 20;
    long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
    machine.l3_bytes = l3 > 0 ? (size_t)l3 : 0;
    identify_host(&machine);
    return machine;
}
