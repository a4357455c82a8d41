/* folder.h: a folder of checkpoints, of which none is ever half there.
 *
 *   FOLDER/step-00000100/          a checkpoint: the state after step 100
 *     model.safetensors, config.json, state.bin, state-00001-of-00001.bin    (checkpoint.h)
 *     adapter_model.safetensors, adapter_config.json    instead of the first two, if adapters are what is trained
 *     lost-00001-of-00002.bin      with --compress, of each rank    (feedback.h)
 *     complete                     marker: written last; without it, the checkpoint does not count
 *   FOLDER/.step-00000100.partial/ one that is being written
 *   FOLDER/.lock                   a training writes here (flock(2)); stays
 *
 * The order of events: files are written under the partial name, each brought to the disk (fsync), the folder that
 * holds them too; renamed; FOLDER brought to the disk; then the marker, and both again. A checkpoint that is removed
 * loses its marker first. So whenever the program or the machine stops, what has a marker is whole. Only files of these
 * names are ever removed. Several ranks write into one folder, which all of them see.
 */
#ifndef EBB_MODEL_FILES_FOLDER_H
#define EBB_MODEL_FILES_FOLDER_H

#include <limits.h>
#include <stdint.h>

#include "model/base/fault.h"

#define FOLDER_MODEL          "model.safetensors"
#define FOLDER_CONFIG         "config.json"
#define FOLDER_ADAPTER        "adapter_model.safetensors"
#define FOLDER_ADAPTER_CONFIG "adapter_config.json"
#define FOLDER_STATE          "state.bin"
#define FOLDER_SHARD          "state"
#define FOLDER_LOST           "lost"
#define FOLDER_MARKER         "complete"

typedef char folder_path_t[PATH_MAX];

/* FOLDER/NAME. False if that is too long. */
bool folder_join(folder_path_t path, const char *folder, const char *name, fault_t *fault);

/* Is this a checkpoint with its marker? */
bool folder_is_complete(const char *checkpoint);

/* The complete checkpoint of the latest step; *found is false if there is none, or no such folder. */
bool folder_newest(const char *folder, bool *found, folder_path_t checkpoint, uint64_t *step, fault_t *fault);

/* Creates FOLDER if necessary (not what it lies in), and makes sure that files can be made in it. */
bool folder_prepare(const char *folder, fault_t *fault);

/* Nobody else writes into FOLDER until *lock is closed, which is -1 where the file system has no locks. One that does now is waited for a
 * while: the ranks of a training that was ended may not know it yet. */
bool folder_lock(const char *folder, int *lock, fault_t *fault);

/* Makes an empty partial checkpoint in FOLDER, whose path is given back.
 * What is left of an interrupted one of the same step is removed. */
bool folder_begin(const char *folder, uint64_t step, folder_path_t partial, fault_t *fault);

/* Its path. */
bool folder_partial(const char *folder, uint64_t step, folder_path_t partial, fault_t *fault);

/* The file of this kind, FOLDER_SHARD or FOLDER_LOST, and of number `number`, from 0 on, of `count` in a checkpoint. */
bool folder_part(folder_path_t path, const char *checkpoint, const char *kind, int number, int count,
                 fault_t *fault);

/* Makes a partial checkpoint whose files are written and on the disk a complete one. */
bool folder_commit(const char *folder, uint64_t step, folder_path_t checkpoint, fault_t *fault);

/* Removes all complete checkpoints but the latest `keep` (0: none), and those that never became complete. */
bool folder_prune(const char *folder, int keep, fault_t *fault);

#endif
