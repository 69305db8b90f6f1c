/* Placeholder. */
#include "internal.h"
