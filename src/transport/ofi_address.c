#include "transport/ofi_address.h"

enum { ADDRESSES_MOST = 32 };

plait_status ofi_address_choose(const char *wanted, const char *toward, struct interface_address *address)
{
    struct interface_address list[ADDRESSES_MOST];
    int count;
    plait_status status = interfaces_list(wanted, list, ADDRESSES_MOST, &count);
    if (status != PLAIT_OK)
        return status;
    *address = list[0];
    for (int i = 0; i < count && wanted == NULL && toward != NULL; i++) {
        if (interfaces_leads_to(&list[i], toward)) {
            *address = list[i];
            address->reason = "the route to where the ranks meet";
            break;
        }
    }
    return PLAIT_OK;
}
