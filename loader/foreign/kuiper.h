/* kuiper.h - a KuiperLLama model file (kuiper_layout.h) as a table of tensors with Hugging Face's names, which are
 * views into the mapped file: code that uses this table handles the file like any Qwen3 model in AWQ's order. Not for
 * use outside the loader.
 *
 * Every number of the header is checked, and the file's length must equal that of its layout, before any data is read.
 * Data is not aligned. Lost bytes of a file that shrinks while in use read as zeros: yk_kuiper_settle. */
#ifndef YK_LOADER_KUIPER_H
#define YK_LOADER_KUIPER_H

#include "loader/foreign/kuiper_layout.h"
#include "loader/safetensors/dir.h"
#include "loader/safetensors/shards.h"

typedef struct yk_kuiper yk_kuiper;

/* yk_kuiper_find - the model file for path: path itself if it is such a file, or the only such file in a directory
 *   without safetensors files; "" if there is none.
 *   Errors: YK_E_INVAL if a directory contains several, or a path is too long. */
yk_status yk_kuiper_find(const char *path, char out[YK_PATH_BYTES], yk_err *err);

/* yk_kuiper_settle - yk_checkpoint_settle for this file. */
yk_status yk_kuiper_settle(const yk_kuiper *file, yk_status status, yk_err *err);

/* yk_kuiper_open - map a file read-only and check it. Free with yk_kuiper_close.
 *   Errors: YK_E_IO, YK_E_FORMAT naming file, field, expected and found; YK_E_UNSUPPORTED (version), YK_E_NOMEM.
 *   Thread: any; afterwards the object is constant. */
yk_status yk_kuiper_open(const char *path, yk_kuiper **out, yk_err *err);

/* yk_kuiper_parse - yk_kuiper_open for a file image in memory, which must outlive the object. name appears in
 * errors. */
yk_status yk_kuiper_parse(const char *name, const void *bytes, uint64_t n_bytes, yk_kuiper **out, yk_err *err);

void yk_kuiper_close(yk_kuiper *file); /* NULL is allowed */

/* yk_kuiper_name, yk_kuiper_header_of - the file's name without its directory, and its header; both live as long as the
 *   object. */
const char *yk_kuiper_name(const yk_kuiper *file);
const yk_kuiper_header *yk_kuiper_header_of(const yk_kuiper *file);

/* yk_kuiper_shards - the file's tensors; the file must outlive them. Free with yk_shards_close. Errors: YK_E_NOMEM. */
yk_status yk_kuiper_shards(const yk_kuiper *file, yk_shards **out, yk_err *err);

#endif
