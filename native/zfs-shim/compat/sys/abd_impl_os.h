/* The development package installs this header under another name. */
#include <libzpool/abd_impl_os.h>
