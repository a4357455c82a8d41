/* node.c: see internal.h. */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc/base/status.h"
#include "offload/internal.h"

/* As in the file, which begins with zeros. Who changes this changes the name (EBB_NODE_NAME). */
struct ebb_node_page {
    _Atomic uint64_t used; /* slots that were ever taken: the first ones */
    uint64_t nothing;
    struct {
        _Atomic uint64_t cgroup, pinned_bytes;
    } slot[EBB_NODE_SLOTS];
};
_Static_assert(sizeof(struct ebb_node_page) == 4096, "the file is one page");

#define NOBODY UINT64_MAX /* for a control group: the slot's process has ended */

static struct flock lock_of(unsigned slot)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
}

static bool take(ebb_node_t *node, unsigned slot)
{
    struct flock lock = lock_of(slot);
    return !fcntl(node->file, F_SETLK, &lock);
}

/* Of another process: one's own locks don't count. */
static bool is_taken(const ebb_node_t *node, unsigned slot)
{
    struct flock lock = lock_of(slot);
    return !fcntl(node->file, F_GETLK, &lock) && lock.l_type != F_UNLCK;
}

/* Room is taken at once: a full file system would be a signal later. */
static struct ebb_node_page *map(int file)
{
    if (posix_fallocate(file, 0, (off_t)sizeof(struct ebb_node_page)))
        return NULL;
    void *at = mmap(NULL, sizeof(struct ebb_node_page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return at == MAP_FAILED ? NULL : at;
}

static bool take_any(ebb_node_t *node)
{
    for (node->slot = 0; node->slot < EBB_NODE_SLOTS && !take(node, node->slot); node->slot++)
        ;
    if (node->slot == EBB_NODE_SLOTS)
        return false;
    atomic_store(&node->page->slot[node->slot].pinned_bytes, 0);
    atomic_store(&node->page->slot[node->slot].cgroup, node->cgroup);
    uint64_t used = atomic_load(&node->page->used);
    while (used <= node->slot && !atomic_compare_exchange_weak(&node->page->used, &used, node->slot + 1))
        ;
    return true;
}

static void leave(ebb_node_t *node)
{
    if (node->page)
        munmap(node->page, sizeof *node->page);
    if (node->file >= 0)
        close(node->file);
    node->page = NULL;
}

void ebb_node_join(ebb_node_t *node, uint64_t cgroup)
{
    node->cgroup = cgroup;
    node->file = shm_open(node->name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    node->page = node->file < 0 ? NULL : map(node->file);
    if (node->page && take_any(node))
        return;
    ebb_log(EBB_DEBUG, "no slot in /dev/shm%s: the host budget does not consider other processes",
            node->name);
    leave(node);
}

void ebb_node_tell(const ebb_node_t *node, size_t pinned_bytes)
{
    if (!node->page)
        return;
    atomic_store(&node->page->slot[node->slot].pinned_bytes, pinned_bytes);
    atomic_store(&node->page->slot[node->slot].cgroup,
                 node->cgroup); /* another may have found it free just before */
}

/* Its name is gone: whoever comes now makes another one. */
static void follow_name(ebb_node_t *node)
{
    struct stat s;
    if (fstat(node->file, &s) || s.st_nlink)
        return;
    const uint64_t pinned_bytes = atomic_load(&node->page->slot[node->slot].pinned_bytes);
    leave(node);
    ebb_node_join(node, node->cgroup);
    ebb_node_tell(node, pinned_bytes);
}

ebb_others_t ebb_node_others(ebb_node_t *node)
{
    ebb_others_t others = {0};
    if (node->page)
        follow_name(node);
    const uint64_t used = node->page ? atomic_load(&node->page->used) : 0;
    for (unsigned i = 0; i < used && i < EBB_NODE_SLOTS; i++) {
        uint64_t cgroup = node->cgroup;
        if (i == node->slot || atomic_load(&node->page->slot[i].cgroup) != cgroup)
            continue;
        if (is_taken(node, i)) {
            others.count++;
            others.pinned_bytes += atomic_load(&node->page->slot[i].pinned_bytes);
        } else {
            atomic_compare_exchange_strong(&node->page->slot[i].cgroup, &cgroup, NOBODY);
        }
    }
    return others;
}
