/* safetensors_write.h - write a directory's weights as safetensors files, as a stream: the list of tensors is given
 * before the first byte of data; then their data follows in the list's order, in pieces of any size.
 *
 *   yk_safetensors_writer *writer;
 *   YK_TRY(yk_safetensors_writer_open(dir, tensors, n_tensors, YK_SHARD_BYTES, &writer, err));
 *   for each tensor, piece by piece:
 *     status = yk_safetensors_writer_put(writer, bytes, n_bytes, err);
 *   if (status == YK_OK) status = yk_safetensors_writer_finish(writer, err);
 *   yk_safetensors_writer_close(writer);
 *
 * Data that fits into one file of shard_bytes becomes model.safetensors; larger data is split between tensors into
 * model-00001-of-00002.safetensors and so on, with model.safetensors.index.json, named as by transformers. File names
 * end in .part until all files are on the disk; the index is written last. A directory therefore never contains an
 * incomplete checkpoint that can be opened. Memory: the list's order and 100 bytes per file.
 *
 * One thread at a time. */
#ifndef YK_LOADER_SAFETENSORS_WRITE_H
#define YK_LOADER_SAFETENSORS_WRITE_H

#include "loader/safetensors/safetensors.h"

#define YK_SHARD_BYTES INT64_C(5000000000) /* transformers' max_shard_size of "5GB" */

typedef struct yk_safetensors_writer yk_safetensors_writer;

/* yk_safetensors_writer_open - check the list, lay out the files and begin the first.
 *   dir: exists and contains no safetensors files. tensors [n_tensors]: name, dtype and shape of each; data and n_bytes
 *   are not read. The list and its names must outlive the writer.
 *   shard_bytes: at least 1; limits the data of a file, except for a larger tensor, which has a separate file. Errors:
 *   YK_E_INVAL (a repeated name or "__metadata__", a shape that is not a whole number of bytes, shard_bytes), YK_E_IO
 *   (dir is missing or contains safetensors files, not enough disk space), YK_E_CAPACITY (a header beyond the format's
 *   limit), YK_E_NOMEM. Free with yk_safetensors_writer_close. */
yk_status yk_safetensors_writer_open(const char *dir, const yk_tensor *tensors, size_t n_tensors, int64_t shard_bytes,
                                     yk_safetensors_writer **out, yk_err *err);

/* yk_safetensors_writer_put - append bytes of the current tensor, not past its end.
 *   Errors: YK_E_INVAL naming the tensor (too many bytes), YK_E_IO. After an error only close is allowed. */
yk_status yk_safetensors_writer_put(yk_safetensors_writer *writer, const void *bytes, size_t n_bytes, yk_err *err);

/* yk_safetensors_writer_finish - flush everything to the disk and rename the files to their final names.
 *   Errors: YK_E_INVAL naming the first tensor whose data is incomplete; YK_E_IO. */
yk_status yk_safetensors_writer_finish(yk_safetensors_writer *writer, yk_err *err);

/* yk_safetensors_writer_close - free, and remove files that are not renamed yet. NULL is allowed. */
void yk_safetensors_writer_close(yk_safetensors_writer *writer);

#endif
