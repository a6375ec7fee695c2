/* The public side of profiles: switching them on, and reading them. */
#include "collectives/profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/handle.h"
#include "base/status.h"
#include "world.h"

/* The communicator's profile, made at the first use. It stays until the communicator is freed, since an
 * operation may be under way that began while it was on. NULL without memory. */
static struct profile *own_profile(struct group *group)
{
    struct profile *profile = atomic_load(&group->profile), *none = NULL;
    if (profile != NULL)
        return profile;
    profile = profile_make(group->ranks);
    if (profile == NULL || atomic_compare_exchange_strong(&group->profile, &none, profile))
        return profile;
    free(profile); /* another thread was faster */
    return none;
}

plait_status plait_comm_set_profiling(plait_comm *handle, int on)
{
    struct comm *comm = comm_hold(handle, __func__);
    if (comm == NULL)
        return handle_refusal(handle);
    plait_status status = PLAIT_OK;
    struct profile *profile = on != 0 ? own_profile(&comm->group) : NULL;
    if (on != 0 && profile == NULL)
        status = failure(PLAIT_OUT_OF_MEMORY, "%s: no memory for the profile of a communicator of %d ranks",
                         __func__, comm->group.ranks);
    else
        atomic_store(&comm->group.profiling, profile);
    comm_let_go(comm);
    return status;
}

plait_status plait_comm_profile(const plait_comm *handle, plait_profile *profile)
{
    if (profile == NULL)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: profile is NULL", __func__);
    size_t size = profile->struct_size;
    if (size < offsetof(plait_profile, operations) || size > 65536)
        return failure(PLAIT_INVALID_ARGUMENT,
                       "%s: profile->struct_size is %zu; set it to sizeof(plait_profile), %zu", __func__,
                       size, sizeof *profile);
    struct comm *comm = comm_hold(handle, __func__);
    if (comm == NULL)
        return handle_refusal(handle);
    plait_profile known = { .struct_size = size, .awaited_ns = profile->awaited_ns };
    const struct profile *own = atomic_load(&comm->group.profile);
    if (own != NULL)
        profile_read(own, &known, known.awaited_ns);
    else if (known.awaited_ns != NULL)
        memset(known.awaited_ns, 0, (size_t)comm->group.ranks * sizeof *known.awaited_ns);
    comm_let_go(comm);
    memset(profile, 0, size);
    memcpy(profile, &known, size < sizeof known ? size : sizeof known);
    return PLAIT_OK;
}
