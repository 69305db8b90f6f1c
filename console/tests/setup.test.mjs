// Two heads as on the day that they were installed, and a newcomer with a browser: from the empty form to a pool
// that is served.

import { twoHeads } from "./world/two-heads.mjs";
import { asksHeads, describesAppliance, makesPool, plansAndApplies, servesAtBothHeads } from "./journeys/fresh.mjs";

const { journey, keepsToItself } = twoHeads("fresh", ["--bare"]);

journey("an appliance of two heads is described in an empty form", describesAppliance);
journey("findings on the heads are shown next to the fields", asksHeads);
journey("its pool is made on the disks", makesPool);
journey("the plan is shown, applied and watched until the pool is served", plansAndApplies);
journey("both heads show the appliance, and there is nothing left to plan", servesAtBothHeads);

keepsToItself("no page of it sends a request to any other host");
