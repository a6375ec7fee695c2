#include "transport/ofi_provider.h"

#include <rdma/fi_errno.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

/* In order of preference. `net` is the stream protocol without a layer on top; from libfabric 1.18 on it
 * is `tcp`, where 1.17 calls tcp what ofi_rxm must be put on. */
static const struct {
    const char *name, *why;
} candidates[] = {
    { "efa", "an EFA device is here" },
    { "verbs;ofi_rxm", "an RDMA device is here" },
    { "net", "no RDMA device is here; net is the fastest over TCP" },
    { "tcp", "no RDMA device is here; tcp needs no layer" },
    { "tcp;ofi_rxm", "no RDMA device is here" },
};
enum { CANDIDATES = sizeof candidates / sizeof candidates[0] };

/* Providers on sockets take the interface by its address; they would choose one themselves otherwise. */
static bool is_on_sockets(const char *name)
{
    static const char *const roots[] = { "net", "tcp", "sockets", "udp", "verbs" };
    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++)
        if (strncmp(name, roots[i], strlen(roots[i])) == 0)
            return true;
    return false;
}

/* The hints that every provider accepts: no order, every kind of registration offered. */
static void write_hints(struct fi_info *hints, bool writes)
{
    hints->caps = FI_MSG | (writes ? FI_RMA : 0);
    hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT | FI_MR_HMEM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->av_type = FI_AV_TABLE;
    hints->domain_attr->cq_data_size = writes ? sizeof(uint32_t) : 0;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
}

/* "tcp" on 1.17 comes back as "tcp;ofi_rxm", which is what it means there. */
static bool is_meant(const char *wanted, const char *offered)
{
    size_t length = strlen(wanted);
    return strncmp(offered, wanted, length) == 0 && (offered[length] == '\0' || offered[length] == ';');
}

/* The best answer for one name: the exact one before one with a layer. 0, or libfabric's error. */
static int ask(const struct ofi_library *library, const char *name, const struct interface_address *address,
               bool writes, struct fi_info **info)
{
    struct fi_info *hints = library->dupinfo(NULL), *list = NULL;
    if (hints == NULL)
        return -FI_ENOMEM;
    write_hints(hints, writes);
    hints->fabric_attr->prov_name = strdup(name);
    bool bound = is_on_sockets(name);
    int error = hints->fabric_attr->prov_name == NULL
                    ? -FI_ENOMEM
                    : library->getinfo(library->version, bound ? address->text : NULL, NULL,
                                       bound ? FI_SOURCE | FI_NUMERICHOST : 0, hints, &list);
    const struct fi_info *best = NULL;
    for (const struct fi_info *at = error == 0 ? list : NULL; at != NULL; at = at->next) {
        if (!is_meant(name, at->fabric_attr->prov_name))
            continue;
        bool exact = strcmp(name, at->fabric_attr->prov_name) == 0;
        if (best == NULL || (exact && strcmp(name, best->fabric_attr->prov_name) != 0))
            best = at;
    }
    if (error == 0 && best == NULL)
        error = -FI_ENODATA;
    if (error == 0 && (*info = library->dupinfo(best)) == NULL)
        error = -FI_ENOMEM;
    if (list != NULL)
        library->freeinfo(list);
    library->freeinfo(hints);
    return error;
}

/* With remote writes if they can be had. */
static int ask_either(struct ofi_choice *choice, const char *name, const struct ofi_wish *wish)
{
    int error = -FI_ENODATA;
    choice->writes = !wish->no_writes;
    if (choice->writes)
        error = ask(choice->library, name, wish->address, true, &choice->info);
    if (error == -FI_ENODATA || error == -FI_ENOSYS) {
        choice->writes = false;
        error = ask(choice->library, name, wish->address, false, &choice->info);
    }
    return error;
}

/* Names of providers that have endpoints of our kind. */
static void list_providers(const struct ofi_library *library, char *text, size_t size)
{
    struct fi_info *hints = library->dupinfo(NULL), *list = NULL;
    size_t used = 0;
    text[0] = '\0';
    if (hints == NULL)
        return;
    write_hints(hints, false);
    if (library->getinfo(library->version, NULL, NULL, 0, hints, &list) == 0) {
        for (const struct fi_info *at = list; at != NULL && used + 40 < size; at = at->next)
            if (strstr(text, at->fabric_attr->prov_name) == NULL)
                used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "",
                                         at->fabric_attr->prov_name);
        library->freeinfo(list);
    }
    library->freeinfo(hints);
}

static plait_status refuse(const struct ofi_library *library, const char *wanted, int error)
{
    char there[240];
    list_providers(library, there, sizeof there);
    if (wanted != NULL)
        return failure(
            PLAIT_INVALID_SETTING,
            "PLAIT_OFI_PROVIDER is '%s', which libfabric %u.%u does not offer here (%s); it offers: %s",
            wanted, FI_MAJOR(library->running), FI_MINOR(library->running), library->strerror(-error),
            there[0] != '\0' ? there : "none");
    return failure(PLAIT_UNSUPPORTED,
                   "libfabric %u.%u has none of the providers that Plait takes by itself (%s); it offers: %s",
                   FI_MAJOR(library->running), FI_MINOR(library->running), library->strerror(-error),
                   there[0] != '\0' ? there : "none");
}

plait_status ofi_provider_choose(const struct ofi_library *library, const struct ofi_wish *wish,
                                 struct ofi_choice *choice)
{
    int error = -FI_ENODATA;
    *choice = (struct ofi_choice){ .library = library };
    if (wish->provider != NULL) {
        error = ask_either(choice, wish->provider, wish);
        snprintf(choice->reason, sizeof choice->reason, "PLAIT_OFI_PROVIDER asks for it");
    }
    for (int i = 0; wish->provider == NULL && i < CANDIDATES && error != 0; i++) {
        error = ask_either(choice, candidates[i].name, wish);
        snprintf(choice->reason, sizeof choice->reason, "%s", candidates[i].why);
    }
    if (error != 0)
        return refuse(library, wish->provider, error);
    /* Asked for afterwards: providers disagree on whether a hint above their default is refused. */
    if (choice->info->rx_attr->size < wish->receives)
        choice->info->rx_attr->size = wish->receives;
    return PLAIT_OK;
}
