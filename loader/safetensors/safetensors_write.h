/* safetensors_write.h - a directory's weights as safetensors files, streamed: what is written are a list of tensors,
 * which is known before the first byte of data, and then their data in the list's order, in pieces of any size.
 *
 *   yk_safetensors_writer *writer;
 *   YK_TRY(yk_safetensors_writer_open(dir, tensors, n_tensors, YK_SHARD_BYTES, &writer, err));
 *   for each tensor, piece by piece:
 *     status = yk_safetensors_writer_put(writer, bytes, n_bytes, err);
 *   if (status == YK_OK) status = yk_safetensors_writer_finish(writer, err);
 *   yk_safetensors_writer_close(writer);
 *
 * What fits into one file of shard_bytes is model.safetensors; more is cut between tensors into
 * model-00001-of-00002.safetensors and so on, with model.safetensors.index.json, as transformers names them. Files have
 * names that end in .part until all of them are on the disk; the index comes last. So a directory never holds a
 * checkpoint that opens and is not whole. Memory: the list's order and 100 bytes a file.
 *
 * One thread at a time. */
#ifndef YK_LOADER_SAFETENSORS_WRITE_H
#define YK_LOADER_SAFETENSORS_WRITE_H

#include "loader/safetensors/safetensors.h"

#define YK_SHARD_BYTES INT64_C(5000000000) /* transformers' max_shard_size of "5GB" */

typedef struct yk_safetensors_writer yk_safetensors_writer;

/* yk_safetensors_writer_open - check the list, lay out the files and begin the first.
 *   dir: exists and holds no safetensors files. tensors [n_tensors]: name, dtype and shape of each; data and n_bytes
 *   are not looked at. The list and its names must outlive the writer.
 *   shard_bytes: at least 1; bounds the data of a file, but for a tensor that is larger and has a file to itself.
 *   Errors: YK_E_INVAL (a name twice or "__metadata__", a shape that is no whole number of bytes, shard_bytes),
 *   YK_E_IO (dir is missing or holds safetensors files, not enough room on the disk), YK_E_CAPACITY (a header beyond
 *   the format's limit), YK_E_NOMEM. Free with yk_safetensors_writer_close. */
yk_status yk_safetensors_writer_open(const char *dir, const yk_tensor *tensors, size_t n_tensors, int64_t shard_bytes,
                                     yk_safetensors_writer **out, yk_err *err);

/* yk_safetensors_writer_put - the next bytes of the tensor that comes next, not beyond its end.
 *   Errors: YK_E_INVAL naming the tensor (too many bytes), YK_E_IO. After an error there is only close. */
yk_status yk_safetensors_writer_put(yk_safetensors_writer *writer, const void *bytes, size_t n_bytes, yk_err *err);

/* yk_safetensors_writer_finish - bring everything to the disk and give the files their names.
 *   Errors: YK_E_INVAL naming the first tensor whose data is not complete; YK_E_IO. */
yk_status yk_safetensors_writer_finish(yk_safetensors_writer *writer, yk_err *err);

/* yk_safetensors_writer_close - free, and remove what has no name yet. NULL is allowed. */
void yk_safetensors_writer_close(yk_safetensors_writer *writer);

#endif
