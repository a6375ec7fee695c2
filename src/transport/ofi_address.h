/* Which of this host's addresses its peers on other hosts should use. */
#ifndef PLAIT_TRANSPORT_OFI_ADDRESS_H
#define PLAIT_TRANSPORT_OFI_ADDRESS_H

#include "base/interfaces.h"

/* `wanted`: PLAIT_INTERFACE, or NULL. `toward`: a host that the ranks can reach, for which the kernel's route is
 * asked, or NULL. Loopback only where nothing else is. */
plait_status ofi_address_choose(const char *wanted, const char *toward, struct interface_address *address);

#endif
