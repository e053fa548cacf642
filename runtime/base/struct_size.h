/* struct_size.h - structs of programs that were compiled with other versions of the public headers. Each begins with a
 * size_t struct_size, the size that it has in the program; later versions only add fields at the end. */
#ifndef YK_BASE_STRUCT_SIZE_H
#define YK_BASE_STRUCT_SIZE_H

#include <stddef.h>

#include "base/status.h"

/* YK_STRUCT_END - the size of a struct that ends behind this field. */
#define YK_STRUCT_END(type, field) (offsetof(type, field) + sizeof((type *)0)->field)

/* yk_struct_read - lay a program's struct over ours [our_bytes], which holds the defaults of what it lacks and is then
 *   of our size. oldest_bytes: of the first version that had the struct. name: of the type, in messages.
 *   Errors: YK_E_INVAL (struct_size was not set), YK_E_UNSUPPORTED (a byte behind ours is not 0, so that a field is set
 *   that is not known here). */
yk_status yk_struct_read(const char *name, const void *theirs, size_t oldest_bytes, void *ours, size_t our_bytes,
                         yk_err *err);

/* yk_struct_write - what fits of ours [our_bytes] into a program's struct of their_bytes, zeros behind it, and
 *   struct_size. */
void yk_struct_write(void *theirs, size_t their_bytes, const void *ours, size_t our_bytes);

#endif
