/* limits.h - the limits of this version of the library. */
#ifndef YK_LIMITS_H
#define YK_LIMITS_H

enum { YK_MAX_RANKS = 64 }; /* length of arrays by rank in structs, so the same in all later versions */

#endif
