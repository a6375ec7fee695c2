/* What this process may use of its machine, and which machine it is. */
#ifndef PLAIT_TOPOLOGY_MACHINE_H
#define PLAIT_TOPOLOGY_MACHINE_H

#include <stddef.h>

enum { HOST_ID_BYTES = 96, HOST_NAME_BYTES = 64 };

struct machine {
    int cores;        /* allowed by affinity and the cgroup's quota, at least 1 */
    size_t l2_bytes;  /* of one core; a guess of 1 MiB where the system does not tell */
    size_t l3_bytes;  /* shared by cores that are near each other; 0 if there is none */
    char host_id[HOST_ID_BYTES]; /* equal for processes that can share memory: boot id and namespaces */
    char host_name[HOST_NAME_BYTES]; /* for people only */
};

struct machine machine_look(void);

#endif
