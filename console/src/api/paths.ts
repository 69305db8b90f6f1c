// Where things are under `/api/v1`. Names of volumes and snapshots hold slashes: they travel
// encoded, and without their pool.

const encode = encodeURIComponent;

/** `vms/vm0` of `tank/vms/vm0`; of `tank/vm0@monday`, `vm0@monday`. */
export function withoutPool(name: string): string {
  return name.slice(name.indexOf("/") + 1);
}

/** `tank` of `tank/vms/vm0`. */
export function poolOf(name: string): string {
  return name.split("/", 1)[0] ?? name;
}

/** `tank/vm0` of `tank/vm0@monday`. */
export function volumeOf(snapshot: string): string {
  return snapshot.split("@", 1)[0] ?? snapshot;
}

export const poolPath = (pool: string): string => `/pools/${encode(pool)}`;

export const volumePath = (volume: string): string =>
  `${poolPath(poolOf(volume))}/volumes/${encode(withoutPool(volume))}`;

export const filesystemPath = (filesystem: string): string =>
  `${poolPath(poolOf(filesystem))}/filesystems/${encode(withoutPool(filesystem))}`;

export const snapshotPath = (snapshot: string): string =>
  `${poolPath(poolOf(snapshot))}/snapshots/${encode(withoutPool(snapshot))}`;

export const targetPath = (pool: string, target: string): string =>
  `${poolPath(pool)}/targets/${encode(target)}`;

export const nbdPath = (volume: string): string =>
  `${poolPath(poolOf(volume))}/nbd/${encode(withoutPool(volume))}`;

/** The confirmation with which the API destroys an object. */
export const confirmed = (path: string, name: string | undefined, more = ""): string =>
  name === undefined ? path : `${path}?confirm=${encode(name)}${more}`;
