/* Who this rank is and where the others are: from the caller's options, else from the environment. */
#include "base/settings.h"

#include <limits.h>

#include "base/status.h"

plait_status settings_read_number(const char *name, int64_t least, int64_t most, const char *good,
                                  int *number, bool *set)
{
    int64_t value;
    const char *text = settings_variable(name);
    *set = text != NULL;
    if (!text)
        return PLAIT_OK;
    if (!settings_parse_number(text, least, most, &value))
        return failure(PLAIT_INVALID_SETTING, "%s is '%.64s'; good values: %s", name, text, good);
    *number = (int)value;
    return PLAIT_OK;
}

/* Where rank 0 listens: the options, else MASTER_ADDR and MASTER_PORT. */
static plait_status read_address(struct settings *settings, const plait_world_options *options)
{
    bool has_port = options->port != 0;
    plait_status status = PLAIT_OK;

    settings->address =
        options->address && options->address[0] ? options->address : settings_variable("MASTER_ADDR");
    settings->port = options->port;
    if (!has_port)
        status = settings_read_number("MASTER_PORT", 1, 65535, "a port from 1 to 65535", &settings->port,
                                      &has_port);
    if (status != PLAIT_OK || settings->size == 1)
        return status;

    if (!settings->address && !has_port) {
        status = launcher_find_meeting(settings);
        if (status != PLAIT_OK || settings->launcher != LAUNCHER_AUTO)
            return status;
    }
    settings->launcher = LAUNCHER_ENVIRONMENT;
    if (!settings->address)
        return failure(PLAIT_INVALID_SETTING,
                       "rank %d of %d does not know where rank 0 is: set MASTER_ADDR to its host name or "
                       "address (or give options.address, .file or .store)",
                       settings->rank, settings->size);
    if (!has_port)
        return failure(PLAIT_INVALID_SETTING,
                       "rank %d of %d does not know the port of rank 0 at %.64s: set MASTER_PORT (or give "
                       "options.port)",
                       settings->rank, settings->size, settings->address);
    return PLAIT_OK;
}

/* Options whose values can't be, alone or together. */
static plait_status check_options(const plait_world_options *options)
{
    if (options->size < 0)
        return failure(PLAIT_INVALID_ARGUMENT,
                       "options.size is %d; good values: 1 and more, or 0 for what the launcher says", options->size);
    if (options->size == 0 && options->rank != 0)
        return failure(
            PLAIT_INVALID_ARGUMENT,
            "options.rank is %d and options.size is 0: give both, or neither for what the launcher says",
            options->rank);
    if (options->size > 0 && (options->rank < 0 || options->rank >= options->size))
        return failure(PLAIT_INVALID_ARGUMENT,
                       "options.rank is %d and options.size is %d; ranks count from 0 to %d", options->rank,
                       options->size, options->size - 1);
    if (options->size == 0 && (options->threads || options->store))
        return failure(PLAIT_INVALID_ARGUMENT, "options.%s needs options.rank and options.size beside it",
                       options->threads ? "threads" : "store");
    if (options->port < 0 || options->port > 65535)
        return failure(PLAIT_INVALID_ARGUMENT,
                       "options.port is %d; good values: 1 to 65535, or 0 for MASTER_PORT", options->port);
    const plait_store *store = options->store;
    if (store && store->struct_size != 0 && store->struct_size < sizeof *store)
        return failure(PLAIT_INVALID_ARGUMENT,
                       "options.store->struct_size is %zu; set it to sizeof(plait_store), %zu",
                       store->struct_size, sizeof *store);
    if (store && (!store->set || !store->get || !store->add || !store->wait))
        return failure(PLAIT_INVALID_ARGUMENT,
                       "options.store lacks a function; it needs set, get, add and wait");
    return PLAIT_OK;
}

plait_status settings_load_launch(struct settings *settings, const plait_world_options *options)
{
    plait_status status = check_options(options);
    if (status != PLAIT_OK)
        return status;

    settings->rank = options->rank;
    settings->size = options->size;
    settings->launcher_asked = settings->launcher != LAUNCHER_AUTO;
    if (options->size == 0)
        status = launcher_find_place(settings);
    if (status == PLAIT_OK && !settings->threads && !settings->store && !settings->file)
        status = read_address(settings, options);
    return status;
}
