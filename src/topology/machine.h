/* What this process may use of its machine, and which machine it is. */
#ifndef PLAIT_TOPOLOGY_MACHINE_H
#define PLAIT_TOPOLOGY_MACHINE_H

#include <stddef.h>
#include <stdint.h>

enum { HOST_ID_BYTES = 96, HOST_NAME_BYTES = 64, MACHINE_CORE_WORDS = 16 };

struct machine {
    uint64_t cores[MACHINE_CORE_WORDS]; /* that this process may run on; a bit each, all 0: unknown */
    int quota;                          /* cores' worth of time that the cgroup allows; 0: no limit */
    size_t l2_bytes;                    /* of one core; a guess of 1 MiB where the system does not tell */
    size_t l3_bytes;                    /* shared by cores that are near each other; 0 if there is none */
    char host_id[HOST_ID_BYTES];     /* equal for processes that can share memory: boot id and namespaces */
    char host_name[HOST_NAME_BYTES]; /* for people only */
};

struct machine machine_look(void);

/* How many cores ranks have between them that may run on `cores`, with time worth `quota` of them; at
 * least 1. */
int machine_core_count(const uint64_t cores[MACHINE_CORE_WORDS], int quota);

#endif
