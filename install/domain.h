/*
 * Performance Metrics Domain number of jumpseat. Numbers 385 to 510 are for sites to allocate: if 400 is
 * taken here, change it before ./Install. Archives and saved identifiers keep the number they were made with.
 */
#define JUMPSEAT 400
