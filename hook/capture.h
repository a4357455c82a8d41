/* capture.h: streams that are captured into graphs, and what graphs mention. For this folder.
 *
 * An operation on a capturing stream does not run. The buffers that it mentions are made resident (the driver
 * looks at the operands of copies when it makes a node of them) and stay so from then on, until the graph and
 * everything instantiated from it are destroyed. A launch of a graph is an operation (EBB_OTHER) on all buffers
 * that it mentions.
 *
 * While any stream is captured no plan is followed, the device as a whole is never waited for, and no event of
 * ebb's is recorded on a capturing stream: how far that one is, is asked before the capture begins. What has not
 * been mentioned may be evicted then as ever, on ebb's own streams. All with ebb_lock() held, unless it says
 * otherwise.
 */
#ifndef EBB_CAPTURE_H
#define EBB_CAPTURE_H

#include "alloc/mark.h"
#include "hook/mentions.h"

/* Around the driver's call that begins a capture; `graph`: it goes on in that one, or NULL. */
void ebb_capture_begins(void);
void ebb_capture_began(CUresult result, CUstream stream, CUgraph graph);
/* After the call that ends it: what was mentioned becomes the graph's. */
void ebb_capture_ended(CUresult result, CUstream stream, CUgraph graph);
/* The stream is about to be destroyed, and with it a capture that began on it. */
void ebb_capture_stream_ends(CUstream stream);

/* An operation on a capturing stream: what it mentions belongs to the graph to be. CUDA_ERROR_OUT_OF_MEMORY: it
 * does not fit beside what else must stay. */
ebb_status_t ebb_capture_note(const ebb_operation_t *operation);
/* An allocation that the graph will make. */
void ebb_capture_note_alloc(CUstream stream, size_t bytes);

/* What a graph, or an executable one, mentions: made with the first question. Of a graph that lies within
 * another, what the other mentions; where that one is not known, what every graph is taken to mention. */
ebb_mentions_t *ebb_graph_mentions(const void *graph);
/* The same without making it: NULL, or what was there. */
const ebb_mentions_t *ebb_graph_known_mentions(const void *graph);
/* `body` lies within `graph`; NULL: within an unknown one. */
void ebb_graph_contains(const void *graph, const void *body);
void ebb_graph_forget(const void *graph);
/* What every graph is taken to mention. */
ebb_mentions_t *ebb_graph_common_mentions(void);

#endif
