/* Made-up hosts: network namespaces behind one switch, for tests with ranks on several hosts. They hang on
 * processes that end with the test, so nothing is left behind whatever becomes of it. */
#ifndef PLAIT_TESTS_HOSTS_H
#define PLAIT_TESTS_HOSTS_H

#include <stdbool.h>

enum { HOSTS_MOST = 8 };

/* Makes `count` hosts, 10.77.0.1 and so on. False with a reason where that can't be done: it needs root,
 * iproute2, and a kernel with namespaces and veth. */
bool hosts_up(int count, const char **reason);
void hosts_down(void);

/* Moves the calling thread to a host. */
bool hosts_enter(int host);

#endif
