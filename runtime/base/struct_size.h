/* struct_size.h - structs of programs that were compiled with other versions of the public headers. Each such struct
 * begins with size_t struct_size, the struct's size in the program; later versions only add fields at the end. */
#ifndef YK_BASE_STRUCT_SIZE_H
#define YK_BASE_STRUCT_SIZE_H

#include <stddef.h>

#include "base/status.h"

/* YK_STRUCT_END - the size of a struct that ends after this field. */
#define YK_STRUCT_END(type, field) (offsetof(type, field) + sizeof((type *)0)->field)

/* yk_struct_read - copy a program's struct over ours [our_bytes], which holds defaults for missing fields; its
 *   struct_size becomes our_bytes. oldest_bytes: size in the first version with this struct. name: the type's name, for
 *   messages.
 *   Errors: YK_E_INVAL (struct_size was not set), YK_E_UNSUPPORTED (a byte past our_bytes is not 0, so the program sets
 *   a field that this version lacks). */
yk_status yk_struct_read(const char *name, const void *theirs, size_t oldest_bytes, void *ours, size_t our_bytes,
                         yk_err *err);

/* yk_struct_write - copy the part of ours [our_bytes] that fits into a program's struct of their_bytes, zero the rest,
 *   and set struct_size. */
void yk_struct_write(void *theirs, size_t their_bytes, const void *ours, size_t our_bytes);

#endif
