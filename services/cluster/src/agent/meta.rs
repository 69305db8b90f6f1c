//! The agent's meta-data (OCF resource agent API 1.1).

/// The agent's `meta-data`.
pub const META_DATA: &str = r#"<?xml version="1.0"?>
<!DOCTYPE resource-agent SYSTEM "ra-api-1.dtd">
<resource-agent name="pool" version="1.0">
  <version>1.1</version>
  <longdesc lang="en">
Serves one ZFS pool of a Bulkhead appliance from this head: proves that the previous owner has stopped, imports
the pool, opens its volumes and listens on its addresses. What is exported is written in the pool itself. What the
pool consists of is written in /etc/bulkhead/appliance.toml.
  </longdesc>
  <shortdesc lang="en">A Bulkhead pool and its server</shortdesc>
  <parameters>
    <parameter name="pool" unique="1" required="1">
      <longdesc lang="en">Name of the pool, as in appliance.toml.</longdesc>
      <shortdesc lang="en">Pool</shortdesc>
      <content type="string"/>
    </parameter>
  </parameters>
  <actions>
    <action name="start" timeout="60s"/>
    <action name="stop" timeout="60s"/>
    <action name="monitor" timeout="10s" interval="5s" depth="0"/>
    <action name="meta-data" timeout="5s"/>
    <action name="validate-all" timeout="10s"/>
  </actions>
</resource-agent>
"#;
